//! The versions of a StaticSite.

use template_operator::static_site;

#[test]
fn no_version_loses_anything() {
    let definition = serde_json::from_value(static_site::definition()).unwrap();
    static_site::conversion::conversion().check_round_trips(&definition, 1, 100).unwrap();
}
