//! Signing tokens with a key that is not the controllers'.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

type Sign = dyn Fn(&Value) -> Option<String> + Send + Sync;

/// Signs claims as a token. The program that starts the controllers holds the key, which the API server must know
/// too.
///
/// ```
/// let signer = setpoint_controllers::TokenSigner::new(|claims| Some(format!("unsigned {claims}")));
/// ```
#[derive(Clone)]
pub struct TokenSigner(Arc<Sign>);

impl TokenSigner {
    /// Signs by this function: none where the key fails.
    pub fn new(sign: impl Fn(&Value) -> Option<String> + Send + Sync + 'static) -> Self {
        TokenSigner(Arc::new(sign))
    }

    pub(super) fn sign(&self, claims: &Value) -> Option<String> {
        (self.0)(claims)
    }
}

impl fmt::Debug for TokenSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenSigner")
    }
}
