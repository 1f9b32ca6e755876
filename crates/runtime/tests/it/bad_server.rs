//! Whatever the server does to a client, the cache ends equal to the server's truth.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};
use setpoint::clock::Random;
use setpoint::informer::Namespaces;
use setpoint::informer::{
    Event, FactoryOptions, InformerFactory, ReflectorOptions, SharedInformer, SubscribeOptions,
};
use setpoint::{Object, Target};

use crate::misdeed::Misdeed;
use crate::world::{Asked, World, failure};

/// Seeds in an ordinary run. `SETPOINT_SEEDS` at compile time asks for more, as `cargo xtask soak watch` does.
const SEEDS: u64 = 1000;
/// Requests that are treated badly in any way; later ones only in ways that let all events through.
const BAD_REQUESTS: u64 = 12;

fn misdeed(random: &Random, asked: &Asked) -> Misdeed {
    let mut misdeed = Misdeed::default();
    match random.below(22) {
        0 => misdeed.cut_after = Some(random.below(3000) as usize),
        1 => misdeed.close_after = Some(random.below(6) as usize),
        2 => misdeed.status = Some((410, "Expired")),
        3 => misdeed.last_words = Some((random.below(5) as usize, failure(410, "Expired"))),
        4 => misdeed.last_words = Some((random.below(5) as usize, failure(410, "Gone"))),
        5 => {
            misdeed.status = Some((429, "TooManyRequests"));
            misdeed.retry_after = Some(random.below(20) as u32);
        }
        6 => misdeed.last_words = Some((random.below(5) as usize, failure(429, "TooManyRequests"))),
        7 => misdeed.no_end_bookmark = true,
        8 => misdeed.duplicate = true,
        9 => misdeed.swap = true,
        10 => misdeed.garbage = true,
        11 => {
            misdeed.trickle = Some((1 + random.below(200) as usize, Duration::from_millis(random.below(900))))
        }
        12 => misdeed.bookmarks_only = !asked.streams_state(),
        13 => misdeed.status = Some((500, "InternalError")),
        14 => misdeed.status = Some((504, "Timeout")),
        15 => misdeed.gzip = true,
        16 => misdeed.strange_encoding = true,
        17 => misdeed.status = Some((410, "Gone")),
        18 => misdeed.status = Some((410, "")),
        19 => misdeed.status = Some((200, "Maintenance")),
        20 => misdeed.mute_after = Some(random.below(6) as usize),
        _ => misdeed.silent = true,
    }
    // A compressed body may break off in the middle too.
    if misdeed.cut_after.is_some() {
        misdeed.gzip = random.below(2) == 0;
    }
    // The rest may come together with a second one, except that a server that sends events out of order and then
    // hides one of them cannot be seen through by anyone.
    if !misdeed.swap && random.below(3) == 0 {
        misdeed.duplicate = true;
        misdeed.garbage = random.below(2) == 0;
    }
    misdeed
}

/// The misdeeds that a server may repeat for ever without keeping its clients from the truth.
fn nuisance(random: &Random) -> Misdeed {
    let mut misdeed = Misdeed { gzip: random.below(4) == 0, ..Misdeed::default() };
    match random.below(4) {
        0 => misdeed.swap = true,
        1 => misdeed.duplicate = true,
        2 => misdeed.garbage = true,
        _ => {}
    }
    misdeed
}

fn mutate(world: &World, random: &Random) {
    let namespace = ["a", "b", "c"][random.below(3) as usize];
    let name = format!("m{}", random.below(4));
    match random.below(10) {
        0..=5 => {
            world.put(namespace, &name, &json!({"value": random.below(1000).to_string()}));
        }
        6..=7 => world.delete(namespace, &name),
        8 => {
            world.delete(namespace, &name);
            world.put(namespace, &name, &json!({"value": "anew"}));
        }
        _ => world.compact(),
    }
}

/// The state that a handler believes in, if it trusts every event.
fn believe(belief: &mut BTreeMap<String, Object>, event: &Event) {
    let key = event.key().to_string();
    let object = event.object().clone();
    match event {
        Event::Add { .. } => {
            assert!(belief.insert(key, object).is_none(), "{event:?}: an addition of what is there");
        }
        Event::Update { old, new } => {
            assert_eq!(old.uid(), new.uid(), "{event:?}: an update across uids");
            let known = belief.insert(key, object);
            assert!(
                known.is_some_and(|known| known.same_state(old)),
                "{event:?}: an update of another state"
            );
        }
        Event::Delete { .. } => {
            let known = belief.remove(&key);
            assert!(
                known.is_some_and(|known| known.uid() == object.uid()),
                "{event:?}: another one is there"
            );
        }
    }
}

/// Key, resourceVersion and data of each object, as [`World::truth`] has them.
fn told<'a>(objects: impl Iterator<Item = &'a Object>) -> BTreeMap<String, (String, Value)> {
    let entry = |object: &Object| {
        let value: Value = object.decode().unwrap();
        assert_eq!(value["kind"], "ConfigMap");
        (object.key().to_string(), (object.resource_version(), value["data"].clone()))
    };
    objects.map(entry).collect()
}

/// Some inform of everything, some of two namespaces; some never stream; pages are small.
fn informer(world: &World, seed: u64, random: &Random) -> SharedInformer {
    let reflector = ReflectorOptions::with(|options| {
        options.watch_list = random.below(4) > 0;
        options.page_size = 1 + random.below(8) as u32;
    });
    let options = FactoryOptions::with(|options| {
        options.reflector = reflector;
        options.random = Random::from_seed(seed);
    });
    let target = Target::of::<ConfigMap>();
    let target =
        if random.below(4) > 0 { target } else { target.in_namespaces(["a", "b"].map(str::to_owned)) };
    InformerFactory::new(world.client(), options).informer(target)
}

async fn run(seed: u64) {
    let world = World::new();
    let random = Random::from_seed(seed);
    for _ in 0..random.below(30) {
        mutate(&world, &random);
    }
    let (judge, mut requests) = (Random::from_seed(!seed), 0);
    world.judge(move |asked| {
        requests += 1;
        let bad = requests <= BAD_REQUESTS && judge.below(5) > 0;
        let late = asked.streams_state() && judge.below(4) == 0;
        let late_end = late.then(|| 1 + judge.below(6) as usize);
        let misdeed = if bad { misdeed(&judge, asked) } else { nuisance(&judge) };
        Misdeed { late_end, ..misdeed }
    });
    let informer = informer(&world, seed, &random);
    let truth = || {
        let covered = |key: &str| informer.target().namespaces == Namespaces::All || !key.starts_with("c/");
        let mut truth = world.truth();
        truth.retain(|key, _| covered(key));
        truth
    };
    let capacity = 1 + random.below(20) as usize;
    let mut events = informer.subscribe(&SubscribeOptions::with(|options| options.capacity = capacity));
    let mut belief = BTreeMap::new();
    informer.start();
    for _ in 0..40 {
        for _ in 0..1 + random.below(8) {
            mutate(&world, &random);
        }
        tokio::time::sleep(Duration::from_millis(random.below(20_000))).await;
        // Sometimes the handler sleeps through a lot.
        while random.below(3) > 0 {
            match events.try_recv() {
                Some(event) => believe(&mut belief, &event),
                None => break,
            }
        }
    }
    let begun = tokio::time::Instant::now();
    while told(informer.store().snapshot().iter()) != truth() {
        assert!(
            begun.elapsed() < Duration::from_secs(3600),
            "seed {seed}: the cache does not become the truth"
        );
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
    assert!(informer.has_synced(), "seed {seed}");
    while let Some(event) = events.try_recv() {
        believe(&mut belief, &event);
    }
    assert_eq!(told(belief.values()), truth(), "seed {seed}: the handler was not told the last state");
}

/// Every fourth seed, so that the tests can run beside each other.
async fn run_fourth(first: u64) {
    let seeds = option_env!("SETPOINT_SEEDS").map_or(SEEDS, |seeds| seeds.parse().unwrap());
    for seed in (first..seeds).step_by(4) {
        run(seed).await;
    }
    println!("{seeds} seeds, each fourth from {first}");
}

#[tokio::test(start_paused = true)]
async fn the_cache_ends_equal_to_the_truth_on_every_seed_from_0() {
    run_fourth(0).await;
}

#[tokio::test(start_paused = true)]
async fn the_cache_ends_equal_to_the_truth_on_every_seed_from_1() {
    run_fourth(1).await;
}

#[tokio::test(start_paused = true)]
async fn the_cache_ends_equal_to_the_truth_on_every_seed_from_2() {
    run_fourth(2).await;
}

#[tokio::test(start_paused = true)]
async fn the_cache_ends_equal_to_the_truth_on_every_seed_from_3() {
    run_fourth(3).await;
}
