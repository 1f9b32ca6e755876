//! OpenID discovery: publishes the keys that sign service-account tokens.

use http::{Response, StatusCode};
use serde_json::{Value, json};

use crate::body::Body;
use crate::respond;
use crate::server::Server;

/// Answers `/openid/v1/jwks`.
pub(crate) fn keys(server: &Server) -> Response<Body> {
    let keys = &server.options().service_accounts;
    let own = keys.signing.as_ref().map(crate::jwt::SigningKey::verifying);
    let published: Vec<Value> =
        own.iter().chain(&keys.verifying).filter_map(crate::jwt::VerifyingKey::jwk).collect();
    let body = serde_json::to_vec(&json!({"keys": published})).expect("a value is always JSON");
    cacheable(respond::bytes(StatusCode::OK, "application/jwk-set+json", body))
}

fn cacheable(mut response: Response<Body>) -> Response<Body> {
    let value = http::HeaderValue::from_static("public, max-age=3600");
    response.headers_mut().insert(http::header::CACHE_CONTROL, value);
    response
}

/// Answers `/.well-known/openid-configuration`.
pub(crate) fn configuration(server: &Server) -> Response<Body> {
    let issuer = &server.options().service_accounts.issuer;
    let jwks = match server.advertised() {
        Some(address) => format!("https://{address}/openid/v1/jwks"),
        None => format!("{issuer}/openid/v1/jwks"),
    };
    let document = json!({"issuer": issuer, "jwks_uri": jwks, "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"], "id_token_signing_alg_values_supported": ["ES256"]});
    cacheable(respond::json(StatusCode::OK, &document))
}
