//! Cluster IPs and node ports: unique, so they are given inside the transaction that stores the Service.

use std::collections::BTreeSet;

use serde_json::Value;
use setpoint_api::Random;
use setpoint_kinds::allocate::{self, Claim, Ranges};
use setpoint_store::{KeyRange, Snapshot};

use crate::context::RequestContext;
use crate::error::{ApiError, Result};
use crate::key;
use crate::object;
use crate::options::Options;
use crate::registry;
use crate::write_options::WriteOptions;

/// The ranges that the server was started with.
pub(crate) fn ranges(options: &Options) -> Ranges {
    let mut ranges =
        Ranges { first_port: options.node_ports.0, last_port: options.node_ports.1, ..Ranges::default() };
    if let Some((network, prefix)) = options.service_cidr.split_once('/')
        && let (Ok(network), Ok(prefix)) = (network.parse(), prefix.parse())
    {
        ranges.network = network;
        ranges.prefix = prefix;
    }
    ranges
}

/// Gives a new or changed Service what it needs.
pub(crate) fn allocate(
    (ctx, options, random): (&RequestContext, &WriteOptions, &Random),
    snapshot: &Snapshot,
    service: &mut Value,
    live: Option<&Value>,
) -> Result<()> {
    let ranges = Ranges { dry: options.is_dry_run(), ..ranges(ctx.server.options()) };
    let own = ctx.resource.key(&ctx.info.namespace, object::name(service));
    let mut taken: BTreeSet<Claim> = BTreeSet::new();
    for entry in snapshot.range(&KeyRange::prefix(key::resource("", "services")), None) {
        if entry.key == own {
            continue;
        }
        let claims = registry::decoded(entry, |entry| allocate::claims(&registry::value(entry)));
        taken.extend(claims.iter().flat_map(|claims| claims.iter().copied()));
    }
    let is_taken = |claim: Claim| taken.contains(&claim);
    let result = match live {
        None => allocate::create(service, &ranges, &is_taken, random),
        Some(live) => allocate::update(service, live, &ranges, &is_taken, random),
    };
    result.map_err(ApiError::from)
}
