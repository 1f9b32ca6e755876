//! The short name of a pod template.

use k8s_openapi::api::core::v1::PodTemplateSpec;
use setpoint_api::random::SUFFIX_ALPHABET;

use super::template;

const FNV_OFFSET: u32 = 0x811c_9dc5;
const FNV_PRIME: u32 = 0x0100_0193;

/// FNV-1a over the template's canonical form and the collision count, written in the alphabet of name suffixes.
///
/// Equal templates hash equal however they spell emptiness. kube-controller-manager hashes a dump of its own structs,
/// so its names differ; ReplicaSets are found by template, never by hash.
pub fn pod_template_hash(template: &PodTemplateSpec, collision_count: Option<i32>) -> String {
    let canonical = template::canonical(template).to_string();
    let mut hash = canonical.bytes().fold(FNV_OFFSET, step);
    if let Some(count) = collision_count {
        hash = u64::from(count.unsigned_abs()).to_le_bytes().into_iter().fold(hash, step);
    }
    hash.to_string()
        .bytes()
        .map(|digit| SUFFIX_ALPHABET[usize::from(digit) % SUFFIX_ALPHABET.len()] as char)
        .collect()
}

fn step(hash: u32, byte: u8) -> u32 {
    (hash ^ u32::from(byte)).wrapping_mul(FNV_PRIME)
}

#[cfg(test)]
mod tests {
    use super::super::tests::template_of;
    use super::*;

    #[test]
    fn the_hash_is_stable_and_moves_with_image_and_collisions() {
        let one = template_of("web:1");
        assert_eq!(pod_template_hash(&one, None), pod_template_hash(&template_of("web:1"), None));
        let all = [
            pod_template_hash(&one, None),
            pod_template_hash(&one, Some(1)),
            pod_template_hash(&one, Some(2)),
            pod_template_hash(&template_of("web:2"), None),
        ];
        for (i, a) in all.iter().enumerate() {
            assert!(a.len() <= 10 && a.bytes().all(|b| SUFFIX_ALPHABET.contains(&b)), "{a}");
            assert!(all[i + 1..].iter().all(|b| a != b), "{all:?}");
        }
    }
}
