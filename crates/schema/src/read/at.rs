//! The reader's position in the document: a chain on the call stack, spelled out only for an error.

use crate::Struct;

/// One step from the root.
#[derive(Clone, Copy)]
pub(super) enum At<'a> {
    Root,
    /// A struct's field. Of a built-in struct: its Go name, its fields, and which one this is.
    Field {
        up: &'a At<'a>,
        owner: Option<(&'a str, &'a Struct, usize)>,
        name: &'a str,
    },
    /// A map's entry.
    Key {
        up: &'a At<'a>,
        name: &'a str,
    },
    /// A list's item.
    Index {
        up: &'a At<'a>,
        at: usize,
    },
    /// Below here a type unmarshals itself: Go names the struct above in its errors.
    Own {
        up: &'a At<'a>,
    },
}

impl<'a> At<'a> {
    fn chain(&self) -> Vec<At<'a>> {
        let mut chain = Vec::new();
        let mut here = *self;
        loop {
            let up = match here {
                At::Root => break,
                At::Field { up, .. } | At::Key { up, .. } | At::Index { up, .. } | At::Own { up } => up,
            };
            chain.push(here);
            here = *up;
        }
        chain.reverse();
        chain
    }

    /// `spec.containers[0].name`, then `last` where there is one.
    pub(super) fn path(&self, last: &str) -> String {
        let mut path = String::new();
        for step in self.chain() {
            match step {
                At::Field { name, .. } | At::Key { name, .. } => join(&mut path, name),
                At::Index { at, .. } => path += &format!("[{at}]"),
                At::Root | At::Own { .. } => {}
            }
        }
        join(&mut path, last);
        path
    }

    /// Go's words for the place of a wrong type: the struct and its fields, or nothing at the root.
    pub(super) fn go(&self) -> Option<(&'a str, String)> {
        let (mut path, mut owned, mut sealed) = (String::new(), None, false);
        for step in self.chain() {
            match step {
                At::Field { owner, name, .. } => {
                    let inlined = owner.map_or(&[][..], |(_, fields, _)| &fields.inlined);
                    let under =
                        inlined.iter().find(|(at, _)| owner.is_some_and(|own| own.2 == usize::from(*at)));
                    under.into_iter().for_each(|(_, under)| join(&mut path, under));
                    join(&mut path, name);
                    if !sealed {
                        owned = owner.map(|(go, ..)| go.rsplit_once('.').map_or(go, |(_, name)| name));
                    }
                }
                At::Own { .. } => sealed = true,
                At::Root | At::Key { .. } | At::Index { .. } => {}
            }
        }
        owned.map(|owner| (owner, path))
    }
}

fn join(path: &mut String, name: &str) {
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(name);
}
