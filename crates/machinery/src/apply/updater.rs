//! The two algorithms of structured merge: apply a configuration, or take note of any other write.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::Value;

use super::compare::{Comparison, compare};
use super::managers::{ManagerId, Managers, Owned};
use super::merge::merge_into;
use super::remove::{reconcile, remove_items, with_named_fields};
use super::reset::ResetFields;
use super::to_set::to_set;
use super::typed::{check, describe};
use super::types::Type;
use super::versions::{ConversionError, Versions};
use crate::fieldset::{FieldSet, PathElement, values_equal};
use setpoint_schema::Schema;

/// A field that somebody else owns with another value.
#[derive(Clone, Debug, PartialEq)]
pub struct Conflict {
    /// The manager that owns it.
    pub manager: ManagerId,
    /// Which field.
    pub path: Vec<PathElement>,
}

/// Why an apply ends without a result.
pub(super) enum Refused {
    Conflicts(Vec<Conflict>),
    /// The object does not fit its type in some manager's version.
    Conversion(ConversionError),
}

type AtVersion<'v> = (Cow<'v, Value>, Cow<'v, Schema>);

pub(super) struct Updater<'c> {
    pub(super) schema: &'c Schema,
    pub(super) api_version: &'c str,
    pub(super) versions: &'c dyn Versions,
    pub(super) reset: &'c ResetFields,
}

impl<'c> Updater<'c> {
    fn ty(&self) -> Type<'c> {
        Type::root(self.schema)
    }

    /// The object and type at another version; none where that version is no more. An error says what does not fit.
    fn at_version<'v>(
        &'v self,
        object: &'v Value,
        version: &str,
    ) -> Result<Option<AtVersion<'v>>, ConversionError> {
        if version == self.api_version {
            return Ok(Some((Cow::Borrowed(object), Cow::Borrowed(self.schema))));
        }
        let Some((object, schema)) = self.versions.try_convert(object, version)? else { return Ok(None) };
        check(&object, Type::root(&schema), false).map_err(|errors| ConversionError(describe(&errors)))?;
        Ok(Some((Cow::Owned(object), Cow::Owned(schema))))
    }

    /// Brings sets that were written under an older schema up to date.
    fn reconcile_managers(&self, live: &Value, managers: &mut Managers) -> Result<(), Refused> {
        let mut gone = Vec::new();
        for (id, owned) in &mut managers.0 {
            let Some((_, schema)) = self.at_version(live, &owned.api_version).map_err(Refused::Conversion)?
            else {
                gone.push(id.clone());
                continue;
            };
            if let Some(set) = reconcile(&owned.set, Type::root(&schema)) {
                owned.set = set;
            }
        }
        gone.iter().for_each(|id| drop(managers.0.remove(id)));
        Ok(())
    }

    fn filtered(&self, comparison: Comparison) -> Comparison {
        Comparison {
            removed: self.reset.filter(comparison.removed),
            modified: self.reset.filter(comparison.modified),
            added: self.reset.filter(comparison.added),
        }
    }

    /// Takes changed fields from all managers but `own`; without force, a changed field of another is a conflict.
    fn take_changes(
        &self,
        old: &Value,
        new: &Value,
        managers: &mut Managers,
        own: Option<&ManagerId>,
        force: bool,
    ) -> Result<Comparison, Refused> {
        let comparison = self.filtered(compare(old, new, self.ty()));
        let mut others: BTreeMap<String, Option<Comparison>> = BTreeMap::new();
        for owned in managers.0.values().filter(|owned| owned.api_version != self.api_version) {
            if !others.contains_key(&owned.api_version) {
                let compared = self.compare_at(old, new, &owned.api_version)?;
                others.insert(owned.api_version.clone(), compared);
            }
        }
        managers
            .0
            .retain(|id, owned| Some(id) == own || !matches!(others.get(&owned.api_version), Some(None)));
        let seen_by = |owned: &Owned| match others.get(&owned.api_version) {
            Some(Some(other)) => (&other.modified, &other.added, &other.removed),
            _ => (&comparison.modified, &comparison.added, &comparison.removed),
        };
        if !force {
            let mut conflicts = Vec::new();
            for (id, owned) in managers.0.iter().filter(|(id, _)| Some(*id) != own) {
                let (modified, added, _) = seen_by(owned);
                let taken = owned.set.intersection(&modified.union(added));
                conflicts
                    .extend(taken.paths().into_iter().map(|path| Conflict { manager: id.clone(), path }));
            }
            if !conflicts.is_empty() {
                return Err(Refused::Conflicts(conflicts));
            }
        }
        for (_, owned) in managers.0.iter_mut().filter(|(id, _)| Some(*id) != own) {
            let (modified, added, removed) = seen_by(owned);
            for changed in [modified, added, removed] {
                if owned.set.intersects(changed) {
                    owned.set = owned.set.difference(changed);
                }
            }
        }
        managers.0.retain(|_, owned| !owned.set.is_empty());
        Ok(comparison)
    }

    /// Compares two objects as a manager of `version` sees them. `None` if that version is no longer served.
    fn compare_at(&self, old: &Value, new: &Value, version: &str) -> Result<Option<Comparison>, Refused> {
        let failed = |which: &str, error: ConversionError| {
            Refused::Conversion(error.within(&format!("failed to convert {which} object")))
        };
        let old = self.at_version(old, version).map_err(|error| failed("old", error))?;
        let new = self.at_version(new, version).map_err(|error| failed("new", error))?;
        let (Some((old, schema)), Some((new, _))) = (old, new) else { return Ok(None) };
        let compared = compare(&old, &new, Type::root(&schema));
        // The fields that a custom kind resets are known for the request's version alone.
        Ok(Some(if self.schema.name.is_some() { self.filtered(compared) } else { compared }))
    }

    /// Takes note of a write by update: whoever writes owns what changed. None where a manager's version cannot show
    /// the object.
    pub(super) fn update(&self, old: &Value, new: &Value, managers: &mut Managers) -> Option<FieldSet> {
        self.reconcile_managers(old, managers).ok()?;
        let comparison = self.take_changes(old, new, managers, None, true).ok()?;
        Some(self.reset.filter(comparison.modified.union(&comparison.added)))
    }

    /// Applies a configuration; the object comes back only if it changed.
    pub(super) fn apply(
        &self,
        live: &Value,
        config: &Value,
        managers: &mut Managers,
        own: &ManagerId,
        force: bool,
    ) -> Result<Option<Value>, Refused> {
        self.reconcile_managers(live, managers)?;
        let set = self.reset.filter(to_set(config, self.ty()));
        let last = managers.0.get(own).cloned();
        let mut merged = live.clone();
        merge_into(&mut merged, config, self.ty());
        let time = last.as_ref().and_then(|last| last.time);
        let owned = Owned { set, api_version: self.api_version.into(), time };
        // Fields that the manager still applies cannot be pruned, whoever else owns them. A manager of another version may
        // be unable to see the result, and pruning is the first to notice.
        let pruning = last.as_ref().is_some_and(|last| {
            let of_another_version = |owned: &Owned| owned.api_version != self.api_version;
            !last.set.is_empty()
                && (managers.0.values().any(of_another_version) || !last.set.is_subset(&owned.set))
        });
        managers.0.insert(own.clone(), owned);
        if let (Some(last), true) = (&last, pruning) {
            let pruned = self.prune(merged, managers, last);
            merged = pruned.map_err(|error| Refused::Conversion(error.within("failed to prune fields")))?;
        }
        if values_equal(live, &merged) {
            managers.0.retain(|_, owned| !owned.set.is_empty());
            return Ok(None);
        }
        self.take_changes(live, &merged, managers, Some(own), force)?;
        Ok(Some(merged))
    }

    /// Removes what the manager applied last time and not this time, unless somebody owns it.
    fn prune(&self, merged: Value, managers: &Managers, last: &Owned) -> Result<Value, ConversionError> {
        let at_last = self.at_version(&merged, &last.api_version);
        let at_last = at_last
            .map_err(|error| error.within("failed to convert merged object to last applied version"))?;
        let Some((at_last, schema)) = at_last else { return Ok(merged) };
        let ty = Type::root(&schema);
        let last_set = with_named_fields(&last.set, Some(ty));
        let pruned = remove_items(&at_last, &last_set, ty);
        let pruned = self.add_back_owned(&at_last, pruned, &last.api_version, managers)?;
        let pruned_set = with_named_fields(&to_set(&pruned, ty), Some(ty));
        let merged_set = with_named_fields(&to_set(&at_last, ty), Some(ty));
        let gone = merged_set.difference(&pruned_set).intersection(&last_set);
        let result = remove_items(&at_last, &gone, ty);
        if last.api_version == self.api_version {
            return Ok(result);
        }
        let converted = self.convert_between(&result, &last.api_version, self.api_version)?;
        Ok(converted.map_or(merged, |(object, _)| object))
    }

    /// Puts back what pruning removed and some manager owns, each at its own version.
    fn add_back_owned(
        &self,
        merged: &Value,
        pruned: Value,
        last_version: &str,
        managers: &Managers,
    ) -> Result<Value, ConversionError> {
        let mut by_version: BTreeMap<&str, FieldSet> = BTreeMap::new();
        for owned in managers.0.values() {
            let set = by_version.entry(&owned.api_version).or_default();
            *set = set.union(&owned.set);
        }
        // The pruned version goes first: later conversions may need what it puts back.
        let first = by_version.remove_entry(last_version);
        let (mut pruned, mut current) = (pruned, last_version.to_owned());
        for (version, managed) in first.into_iter().chain(by_version) {
            let failed = |which: &str, error: ConversionError| {
                let step = "failed add back owned items: failed to convert";
                error.within(&format!("{step} {which} object at version {version}"))
            };
            let merged = self.convert_between(merged, last_version, version);
            let Some((merged, schema)) = merged.map_err(|error| failed("merged", error))? else { continue };
            let at_version = self.convert_between(&pruned, &current, version);
            let Some((at_version, _)) = at_version.map_err(|error| failed("pruned", error))? else {
                continue;
            };
            let ty = Type::root(&schema);
            let named = |set: &FieldSet| with_named_fields(set, Some(ty));
            let kept = named(&to_set(&at_version, ty)).union(&named(&managed));
            let gone = named(&to_set(&merged, ty)).difference(&kept);
            pruned = remove_items(&merged, &gone, ty);
            version.clone_into(&mut current);
        }
        let back = self.convert_between(&pruned, &current, last_version).map_err(|error| {
            error.within(
                "failed add back dangling items: failed to convert pruned object to last applied version",
            )
        })?;
        Ok(back.map_or(pruned, |(object, _)| object))
    }

    fn convert_between(
        &self,
        object: &Value,
        from: &str,
        to: &str,
    ) -> Result<Option<(Value, Schema)>, ConversionError> {
        if from == to && to == self.api_version {
            return Ok(Some((object.clone(), self.schema.clone())));
        }
        let converted = self.versions.try_convert(object, to)?;
        let converted = match to == self.api_version {
            true => converted.map(|(object, _)| (object, self.schema.clone())),
            false => converted,
        };
        if let Some((object, schema)) = &converted {
            check(object, Type::root(schema), false).map_err(|errors| ConversionError(describe(&errors)))?;
        }
        Ok(converted)
    }
}
