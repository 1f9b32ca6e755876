//! Create or update.

use serde_json::Value;

use super::write::key_of;
use super::{Client, Kind};
use crate::error::{ClientError, Error};

/// The result of [`Client::create_or_update`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Upserted {
    /// Nothing: the object was as it should be.
    Unchanged,
    /// Created it.
    Created,
    /// Updated it.
    Updated,
}

impl Client {
    /// Brings an object to what `mutate` makes of it: creates it from `object` if the cache has none, else updates
    /// the cached one if `mutate` changes it.
    ///
    /// `object` names the object; when it exists `mutate` is given the existing one instead.
    ///
    /// Dropping the future while it writes does not take the request back: the server may act on it, and no later
    /// read waits for it.
    ///
    /// # Errors
    /// An error of `mutate` or from the server; a terminal one if `mutate` gives the object another name or namespace.
    pub async fn create_or_update<K: Kind>(
        &self,
        object: K,
        mut mutate: impl FnMut(&mut K) -> Result<(), Error>,
    ) -> Result<(K, Upserted), Error> {
        let kind = K::kind(&());
        let key = key_of(&object, &kind)?;
        let own = self.key_for::<K>(key.clone())?;
        let check_name = |object: &K| match self.key_for::<K>(key_of(object, &kind)?)? == own {
            true => Ok(()),
            false => Err(Error::terminal(format!("the mutate function must not rename {kind} {key}"))),
        };
        let Some(existing) = self.get::<K>(&key).await? else {
            let mut fresh = object;
            mutate(&mut fresh)?;
            check_name(&fresh)?;
            return Ok((self.create(&fresh).await?, Upserted::Created));
        };
        let mut wanted = (*existing).clone();
        mutate(&mut wanted)?;
        let value = |object: &K| {
            let encoded = serde_json::to_value(object);
            encoded.map_err(|source| ClientError::Encode { kind: kind.clone(), source })
        };
        let (before, after): (Value, Value) = (value(&existing)?, value(&wanted)?);
        if before == after {
            return Ok((wanted, Upserted::Unchanged));
        }
        check_name(&wanted)?;
        Ok((self.update(&wanted).await?, Upserted::Updated))
    }
}
