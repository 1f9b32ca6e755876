//! A model of a Deployment, its ReplicaSets and pods, stepped in random order with reads that lag and controllers that
//! die between two writes: a rollout keeps its two promises at every step and always ends.

use setpoint_api::Random;

use super::*;

#[derive(Clone, Copy, PartialEq)]
struct ModelPod {
    set: usize,
    ready: bool,
}

struct Model {
    deployment: Deployment,
    sets: Vec<ReplicaSet>,
    pods: Vec<ModelPod>,
    random: Random,
    clock: i64,
}

impl Model {
    fn new(seed: u64) -> Self {
        let random = Random::from_seed(seed);
        let replicas = 1 + random.below(8) as i32;
        let (surge, unavailable) = (random.below(4), random.below(4));
        let deployment = deployment(replicas, &surge.to_string(), &unavailable.to_string());
        Model { deployment, sets: Vec::new(), pods: Vec::new(), random, clock: 0 }
    }

    fn now(&self) -> Timestamp {
        now() + SignedDuration::from_secs(self.clock)
    }

    /// The Deployment controller looks and writes, and perhaps dies on the way.
    fn sync_deployment(&mut self, may_die: bool) {
        let sets: Vec<&ReplicaSet> = self.sets.iter().collect();
        let running = BTreeSet::new();
        let observed = Observed { deployment: &self.deployment, replica_sets: &sets, running: &running };
        let plan = plan(&observed, self.now());
        let mut lives = if may_die { self.random.below(6) } else { u64::MAX };
        let mut alive = || {
            let lived = lives > 0;
            lives = lives.saturating_sub(1);
            lived
        };
        if let Some(mut created) = plan.create.filter(|_| alive()) {
            created.metadata.uid = Some(format!("uid-{}", self.sets.len()));
            created.metadata.generation = Some(1);
            created.metadata.creation_timestamp = Some(Time(now() + SignedDuration::from_secs(self.clock)));
            self.sets.push(created);
        }
        for change in plan.change.iter().take_while(|_| alive()) {
            let set =
                self.sets.iter_mut().find(|set| set.metadata.name.as_ref() == Some(&change.name)).unwrap();
            set.metadata.annotations.get_or_insert_default().extend(change.annotations.clone());
            if let Some(replicas) = change.replicas {
                set.spec.replicas = Some(replicas);
                set.metadata.generation = Some(set.metadata.generation.unwrap() + 1);
            }
        }
        for (name, _) in plan.delete.iter().take_while(|_| alive()) {
            let index = self.sets.iter().position(|set| set.metadata.name.as_ref() == Some(name)).unwrap();
            assert!(self.pods.iter().all(|pod| pod.set != index), "a ReplicaSet with pods is no history");
        }
        if let Some(status) = plan.status.filter(|_| alive()) {
            self.deployment.status = Some(status);
        }
        if let Some(revision) = plan.revision.filter(|_| alive()) {
            self.deployment.metadata.annotations.get_or_insert_default().insert(REVISION.into(), revision);
        }
    }

    /// A ReplicaSet gets one pod nearer to its size; not ready pods go first.
    fn sync_pods(&mut self, index: usize) {
        let wanted = self.sets[index].spec.replicas.unwrap() as usize;
        let own: Vec<usize> = (0..self.pods.len()).filter(|pod| self.pods[*pod].set == index).collect();
        if own.len() < wanted {
            self.pods.push(ModelPod { set: index, ready: false });
        } else if own.len() > wanted {
            let victim = own.iter().copied().min_by_key(|pod| self.pods[*pod].ready).unwrap();
            self.pods.remove(victim);
        }
    }

    /// A ReplicaSet reports its pods.
    fn report(&mut self, index: usize) {
        let own = || self.pods.iter().filter(|pod| pod.set == index);
        let (all, ready) = (own().count() as i32, own().filter(|pod| pod.ready).count() as i32);
        let generation = self.sets[index].metadata.generation;
        self.sets[index].status = Some(ReplicaSetStatus {
            replicas: all,
            ready_replicas: Some(ready),
            available_replicas: Some(ready),
            terminating_replicas: Some(0),
            observed_generation: generation,
            ..Default::default()
        });
    }

    fn step(&mut self) {
        self.clock += 1;
        let pick = |random: &Random, count: usize| (count > 0).then(|| random.below(count as u64) as usize);
        match self.random.below(5) {
            0 => self.sync_deployment(true),
            1 | 2 => {
                if let Some(index) = pick(&self.random, self.sets.len()) {
                    self.sync_pods(index);
                }
            }
            3 => {
                if let Some(index) = pick(&self.random, self.sets.len()) {
                    self.report(index);
                }
            }
            _ => {
                if let Some(index) = pick(&self.random, self.pods.len()) {
                    self.pods[index].ready = true;
                }
            }
        }
    }

    /// Everybody takes turns until the rollout is complete.
    fn settle(&mut self) {
        for _ in 0..400 {
            self.clock += 1;
            self.sync_deployment(false);
            for index in 0..self.sets.len() {
                for _ in 0..12 {
                    self.sync_pods(index);
                    self.check();
                }
                self.report(index);
            }
            self.pods.iter_mut().for_each(|pod| pod.ready = true);
            if self.is_complete() {
                return;
            }
        }
        panic!("the rollout does not end: {:?}", self.deployment.status);
    }

    fn is_complete(&self) -> bool {
        let status = self.deployment.status.clone().unwrap_or_default();
        super::super::status::is_complete(&self.deployment, &status)
    }

    fn check(&self) {
        let rolling = self.deployment.spec.strategy.as_ref().unwrap().rolling_update.as_ref().unwrap();
        let number = |amount: &Option<IntOrString>| match amount {
            Some(IntOrString::Int(number)) => *number,
            _ => unreachable!("the model uses numbers"),
        };
        let desired = self.deployment.spec.replicas.unwrap();
        let (surge, unavailable) = match (number(&rolling.max_surge), number(&rolling.max_unavailable)) {
            (0, 0) => (0, 1),
            amounts => amounts,
        };
        let (all, ready) = (self.pods.len() as i32, self.pods.iter().filter(|pod| pod.ready).count() as i32);
        assert!(all <= desired + surge, "{all} pods of {desired} with surge {surge}");
        let rolling_out = self.sets.len() > 1;
        assert!(
            !rolling_out || ready >= desired - unavailable,
            "{ready} ready of {desired} with {unavailable}"
        );
    }
}

#[test]
fn a_rollout_keeps_its_promises_in_every_order_and_ends() {
    for seed in 0..400 {
        let mut model = Model::new(seed);
        model.settle();
        for image in ["web:two", "web:three"] {
            model.deployment.spec.template = template_of(image);
            model.deployment.metadata.generation = Some(model.deployment.metadata.generation.unwrap() + 1);
            for _ in 0..150 {
                model.step();
                model.check();
            }
            model.settle();
        }
        let mut sizes: Vec<i32> = model.sets.iter().map(|set| set.spec.replicas.unwrap()).collect();
        sizes.sort_unstable();
        assert_eq!(
            sizes,
            [0, 0, model.deployment.spec.replicas.unwrap()],
            "seed {seed}: one ReplicaSet a template"
        );
    }
}
