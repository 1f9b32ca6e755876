//! Descriptions of the built-in types. The build script takes them from k8s-openapi.

/// Zero-terminated triples: type, field, text.
const PROSE: &str = include_str!(concat!(env!("OUT_DIR"), "/prose"));

/// Lists all descriptions: see [`setpoint_apiserver::openapi::Prose`].
pub fn tell(told: &mut dyn FnMut(&str, &str, &str)) {
    let mut parts = PROSE.split_terminator('\0');
    while let (Some(model), Some(field), Some(text)) = (parts.next(), parts.next(), parts.next()) {
        told(model, field, text);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use k8s_openapi::api::apps::v1::Deployment;
    use schemars::{JsonSchema, SchemaGenerator};

    /// The build script reads source text. This test compares the result with the same crate's schemas.
    #[test]
    fn it_is_what_the_schemas_say() {
        let mut told = BTreeMap::new();
        super::tell(&mut |model, field, text| {
            told.insert((model.to_owned(), field.to_owned()), text.to_owned());
        });
        let mut generator = SchemaGenerator::default();
        generator.subschema_for::<Deployment>();
        let definitions = generator.take_definitions(false);
        assert!(definitions.contains_key(&*Deployment::schema_name()) && definitions.len() > 100);
        for (model, schema) in &definitions {
            let text = |schema: &serde_json::Value| schema["description"].as_str().map(str::to_owned);
            let own = [(String::new(), text(schema))];
            let fields = schema["properties"].as_object().into_iter().flatten();
            let fields = fields.map(|(field, schema)| (field.clone(), text(schema)));
            for (field, expected) in own.into_iter().chain(fields) {
                let key = (model.clone(), field);
                assert_eq!(told.get(&key), expected.as_ref(), "{key:?}");
            }
        }
    }
}
