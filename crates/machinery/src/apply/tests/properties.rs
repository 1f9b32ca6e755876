//! Properties of any appliers that share sets, maps and keyed lists.

use super::*;

const MANAGERS: [&str; 3] = ["a", "b", "c"];

/// A spec whose containers several appliers can share: each takes the elements of its own letters.
fn share(letters: &[&str], ports: &[i64]) -> Value {
    let map: Value = letters.iter().map(|letter| ((*letter).to_owned(), json!(letter))).collect();
    let nested: Value = letters.iter().map(|letter| ((*letter).to_owned(), json!({"x": [letter]}))).collect();
    let ports: Vec<Value> = ports
        .iter()
        // The key's second part is left to its default for some.
        .map(
            |port| {
                if port % 2 == 0 { json!({"port": port}) } else { json!({"port": port, "protocol": "UDP"}) }
            },
        )
        .collect();
    let mut spec = serde_json::Map::new();
    if !letters.is_empty() {
        spec.extend([
            ("set".to_owned(), json!(letters)),
            ("map".to_owned(), map),
            ("any".to_owned(), nested),
        ]);
    }
    if !ports.is_empty() {
        spec.insert("ports".to_owned(), ports.into());
    }
    Value::Object(spec)
}

/// Not empty: an empty spec that prunes is not settled at once, in kube-apiserver neither.
fn some_spec() -> impl Strategy<Value = Value> {
    any_spec().prop_filter("empty", |spec| spec.as_object().is_some_and(|fields| !fields.is_empty()))
}

fn leaves(world: &World) -> FieldSet {
    let live = world.live.as_ref().expect("somebody applied");
    to_set::to_set(live, Type::root(&world.schema)).difference(&UNOWNED)
}

proptest! {
    #[test]
    fn appliers_of_disjoint_items_do_not_meet(
        letters in prop::collection::vec(0..3usize, 4),
        ports in prop::collection::vec(0..3usize, 4),
        order in Just(MANAGERS.to_vec()).prop_shuffle(),
    ) {
        let part = |manager: &str| {
            let mine = |owner: &usize| MANAGERS[*owner] == manager;
            let own: Vec<&str> =
                ["k", "l", "m", "n"].into_iter().zip(&letters).filter(|(_, owner)| mine(owner)).map(|(one, _)| one).collect();
            let numbers: Vec<i64> =
                (1..5).zip(&ports).filter(|(_, owner)| mine(owner)).map(|(one, _)| one).collect();
            share(&own, &numbers)
        };
        let (mut one, mut two) = (World::new(), World::new());
        for manager in MANAGERS {
            one.apply(manager, part(manager));
        }
        for manager in &order {
            two.apply(manager, part(manager));
        }
        // Nobody was in conflict, everything is there, and everybody owns the same whoever came first.
        prop_assert_eq!(leaves(&one), leaves(&two));
        for manager in MANAGERS {
            prop_assert_eq!(one.owned(manager), two.owned(manager));
        }
        // One leaves: what it alone had goes, and nothing else.
        one.apply(order[0], json!({}));
        let mut without = World::new();
        without.apply("z", json!({"name": "n"}));
        for manager in order.iter().skip(1) {
            without.apply(manager, part(manager));
        }
        for manager in order.iter().skip(1) {
            prop_assert_eq!(one.owned(manager), without.owned(manager));
        }
        let left = leaves(&one).difference(&leaves(&without));
        prop_assert!(left.paths().iter().all(|path| !crate::fieldset::display_path(path).starts_with(".spec.")), "{left}");
    }

    #[test]
    fn owners_own_what_is_there(
        steps in prop::collection::vec((0..3usize, some_spec(), any::<bool>()), 1..8)
    ) {
        let mut world = World::new();
        for (manager, spec, force) in steps {
            let manager = MANAGERS[manager];
            if world.try_apply(manager, spec.clone(), force).is_err() {
                prop_assert!(!force, "a forced apply has no conflicts");
                continue;
            }
            let settled = world.live.clone();
            prop_assert!(!world.try_apply(manager, spec, force).unwrap(), "the same again changes nothing");
            prop_assert_eq!(&world.live, &settled);
            let entries = Managers::decode(world.live.as_ref().and_then(managed_fields)).unwrap();
            let there = leaves(&world);
            let mut owned = FieldSet::new();
            for entry in entries.0.values() {
                owned = owned.union(&entry.set);
            }
            // A manager that applied an empty spec owns the spec itself, which is no leaf once another manager fills it.
            let stray = owned.difference(&there).difference(&FieldSet::of_fields([&["spec"][..]]));
            prop_assert!(stray.is_empty(), "owned and not there: {stray}");
            let orphans = there.difference(&owned);
            let orphans: Vec<String> =
                orphans.paths().iter().map(|path| crate::fieldset::display_path(path)).collect();
            // Containers may stay behind without an owner; values may not.
            prop_assert!(orphans.iter().all(|path| !path.contains("[=") && !path.ends_with("replicas")), "{orphans:?}");
        }
        for manager in MANAGERS {
            world.try_apply(manager, json!({}), true).unwrap();
        }
        // An empty spec is all that anybody applies, and all that is left of what they applied.
        let spec = FieldSet::of_fields([&["spec"][..]]);
        let entries = Managers::decode(world.live.as_ref().and_then(managed_fields)).unwrap();
        prop_assert!(entries.0.values().all(|entry| entry.set.is_subset(&spec)));
        let left = leaves(&world).difference(&spec);
        prop_assert!(left.is_empty(), "{left}");
    }
}
