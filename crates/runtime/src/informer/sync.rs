//! Waiting for caches.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;

use super::pump::Pump;
use super::shared::{HandlerRegistration, SharedInformer, SyncHandle};

/// Something that [`wait_for_cache_sync`] can wait for: it has synced once it has handled a full state.
pub trait CacheSync: Sync {
    /// Waits until it has synced. False when it ended before and never will.
    fn synced(&self) -> BoxFuture<'_, bool>;
}

impl CacheSync for SharedInformer {
    fn synced(&self) -> BoxFuture<'_, bool> {
        self.wait_synced().map(|()| true).boxed()
    }
}

impl CacheSync for Pump {
    fn synced(&self) -> BoxFuture<'_, bool> {
        self.wait_synced().boxed()
    }
}

/// The handler has handled the full state, not the cache alone.
impl CacheSync for SyncHandle {
    fn synced(&self) -> BoxFuture<'_, bool> {
        self.wait().boxed()
    }
}

/// As its [`SyncHandle`].
impl CacheSync for HandlerRegistration {
    fn synced(&self) -> BoxFuture<'_, bool> {
        let handle = self.sync_handle();
        async move { handle.wait().await }.boxed()
    }
}

impl<S: CacheSync + ?Sized> CacheSync for &S {
    fn synced(&self) -> BoxFuture<'_, bool> {
        (**self).synced()
    }
}

impl<S: CacheSync + Send + ?Sized> CacheSync for Arc<S> {
    fn synced(&self) -> BoxFuture<'_, bool> {
        (**self).synced()
    }
}

/// Waits until all of them have synced. False when one of them never will.
///
/// ```
/// use setpoint::informer::{CacheSync, HandlerRegistration, Pump, SharedInformer, wait_for_cache_sync};
/// async fn wait(informers: &[SharedInformer], handler: &HandlerRegistration, pump: &Pump) -> bool {
///     let others: [&dyn CacheSync; 2] = [handler, pump];
///     wait_for_cache_sync(informers).await && wait_for_cache_sync(&others).await
/// }
/// ```
///
/// Dropping the future ends the wait and changes nothing.
pub async fn wait_for_cache_sync<S: CacheSync>(caches: &[S]) -> bool {
    let all = futures::future::join_all(caches.iter().map(CacheSync::synced)).await;
    all.into_iter().all(|synced| synced)
}
