//! Conversion reviews, and the property test that finds what a conversion loses.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use kube::core::crd::merge_crds;
use serde_json::json;

use super::*;
use crate::webhook::RoundTripError;

mod v1 {
    use kube::CustomResource;
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};

    #[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
    #[kube(group = "example.org", version = "v1", kind = "Cafe", namespaced)]
    pub struct CafeSpec {
        pub tables: u32,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub terrace: Option<bool>,
    }
}

mod v1beta1 {
    use kube::CustomResource;
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};

    #[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
    #[kube(group = "example.org", version = "v1beta1", kind = "Cafe", namespaced)]
    pub struct CafeSpec {
        pub table_count: u32,
    }
}

const TERRACE: &str = "example.org/terrace";

fn up(mut old: v1beta1::Cafe) -> Result<v1::Cafe, String> {
    let kept = old.metadata.annotations.as_mut().and_then(|all| all.remove(TERRACE));
    let terrace = kept.map(|text| text.parse()).transpose().map_err(|error| format!("{TERRACE}: {error}"))?;
    old.metadata.annotations = old.metadata.annotations.filter(|all| !all.is_empty());
    Ok(v1::Cafe { metadata: old.metadata, spec: v1::CafeSpec { tables: old.spec.table_count, terrace } })
}

fn down(mut new: v1::Cafe) -> Result<v1beta1::Cafe, String> {
    if let Some(terrace) = new.spec.terrace {
        new.metadata.annotations.get_or_insert_default().insert(TERRACE.into(), terrace.to_string());
    }
    Ok(v1beta1::Cafe { metadata: new.metadata, spec: v1beta1::CafeSpec { table_count: new.spec.tables } })
}

fn forgetful(new: v1::Cafe) -> Result<v1beta1::Cafe, String> {
    Ok(v1beta1::Cafe { metadata: new.metadata, spec: v1beta1::CafeSpec { table_count: new.spec.tables } })
}

fn definition() -> CustomResourceDefinition {
    merge_crds(vec![v1::Cafe::crd(), v1beta1::Cafe::crd()], "v1").unwrap()
}

fn old(name: &str, annotations: Value) -> Value {
    json!({
        "apiVersion": "example.org/v1beta1", "kind": "Cafe", "spec": {"table_count": 3},
        "metadata": {
            "name": name, "namespace": "default", "creationTimestamp": "2026-01-01T00:00:00Z",
            "annotations": annotations, "managedFields": [{"manager": "x", "fieldsV1": {"f:spec": {}}}],
        },
    })
}

async fn answer(objects: Vec<Value>, to: &str) -> Value {
    let conversion = Conversion::<v1::Cafe>::of_hub().spoke(up, down);
    let request = ConversionRequest { uid: "u".into(), desired_api_version: to.into(), objects };
    conversion.versions.answer(request).await["response"].take()
}

#[tokio::test]
async fn a_list_is_converted_in_one_call_and_keeps_its_metadata() {
    let objects = vec![old("one", json!({TERRACE: "true"})), old("two", json!({"a": "b"}))];
    let response = answer(objects.clone(), "example.org/v1").await;
    assert_eq!((&response["uid"], &response["result"]["status"]), (&json!("u"), &json!("Success")));
    let converted = response["convertedObjects"].as_array().unwrap().clone();
    assert_eq!(converted[0]["spec"], json!({"tables": 3, "terrace": true}));
    assert_eq!(converted[0]["apiVersion"], "example.org/v1");
    assert_eq!(converted[0]["metadata"].get("annotations"), None);
    assert_eq!(converted[0]["metadata"]["managedFields"], objects[0]["metadata"]["managedFields"]);
    assert_eq!(converted[1]["metadata"], objects[1]["metadata"]);
    let back = answer(converted, "example.org/v1beta1").await;
    assert_eq!(back["convertedObjects"], json!(objects));
}

#[tokio::test]
async fn one_object_that_cannot_be_converted_fails_the_list_by_name() {
    let objects = vec![old("one", json!({})), old("two", json!({TERRACE: "perhaps"}))];
    for (objects, to, told) in [
        (objects.clone(), "example.org/v1", "Cafe default/two: example.org/terrace: provided string was not"),
        (objects, "example.org/v2", "Cafe default/one: the webhook knows no version example.org/v2"),
        (vec![json!({"kind": "Bar"})], "example.org/v1", "the webhook converts Cafe, not \"Bar\""),
        (vec![json!(7)], "example.org/v1", "the webhook converts Cafe, not null"),
    ] {
        let response = answer(objects, to).await;
        let message = response["result"]["message"].as_str().unwrap();
        assert!(response["result"]["status"] == "Failure" && message.contains(told), "{message}");
        assert_eq!(response.get("convertedObjects"), None);
    }
}

#[test]
fn what_a_conversion_loses_is_found() {
    let lossless = Conversion::<v1::Cafe>::of_hub().spoke(up, down);
    assert_eq!(lossless.check_round_trips(&definition(), 1, 300), Ok(()));
    let lossy = Conversion::<v1::Cafe>::of_hub().spoke(up, forgetful);
    let found = lossy.check_round_trips(&definition(), 1, 300).unwrap_err();
    let RoundTripError::Changed { via, difference, .. } = &found else { panic!("{found}") };
    assert_eq!(via, "example.org/v1beta1");
    assert_eq!(difference[0]["path"], "/spec/terrace");
    let no = |_: v1beta1::Cafe| Err::<v1::Cafe, _>("closed");
    let refusing = Conversion::<v1::Cafe>::of_hub().spoke(no, |new| forgetful(new).map_err(|_| "never"));
    let refused = refusing.check_round_trips(&definition(), 1, 10).unwrap_err();
    assert!(matches!(refused, RoundTripError::Refused { ref error, .. } if error == "closed"), "{refused}");
    let alone = Conversion::<v1::Cafe>::of_hub();
    assert_eq!(alone.check_round_trips(&definition(), 1, 10), Err(RoundTripError::Nothing));
}
