//! The cost of the schema table to a process: types are decoded one by one, on first use. A program of its own, in which
//! nothing else decodes any of it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use setpoint_schema::builtin;

const MIB: u64 = 1024 * 1024;

#[test]
fn the_table_costs_little_at_first_and_less_than_two_mib_in_all() {
    let first = allocation_counter::measure(|| drop(builtin().schema("", "v1", "ConfigMap")));
    assert!(first.count_total < 500, "{first:?}");
    let all = allocation_counter::measure(|| {
        for number in 0..builtin().type_count() {
            builtin().type_at(number);
        }
        builtin().resources();
    });
    assert!(builtin().type_count() > 500);
    let kept = u64::try_from(first.bytes_current + all.bytes_current).unwrap();
    let embedded = builtin().bytes().len() as u64;
    println!("{kept} bytes decoded, {embedded} embedded; {} allocations for a ConfigMap", first.count_total);
    assert!(kept + embedded < 2 * MIB, "{kept} bytes decoded, {embedded} embedded");
}
