//! The declarations of one source file, and the paths that it names.

use super::tokens::{Token, tokens};

/// A module as its file has it. Modules and items under `#[cfg(test)]` are left out.
#[derive(Debug, Default)]
pub struct Source {
    /// `mod x;` and `mod x { … }`, in their order.
    pub children: Vec<Child>,
    /// Imports at the top of the module: the names that other modules can reach through it.
    pub imports: Vec<Import>,
    /// Items that the module defines itself.
    pub items: Vec<Item>,
    /// Every path that begins in this crate, in imports and in bodies.
    pub paths: Vec<Named>,
}

#[derive(Debug)]
pub struct Child {
    pub name: String,
    pub public: bool,
    /// The body of an inline module; `None` stands in a file of its own.
    pub inline: Option<Source>,
}

#[derive(Debug)]
pub struct Item {
    pub name: String,
    pub public: bool,
}

#[derive(Debug)]
pub struct Import {
    /// `*` for everything.
    pub name: String,
    pub public: bool,
    pub path: Vec<String>,
}

/// A path and the line on which it stands.
#[derive(Debug)]
pub struct Named {
    pub path: Vec<String>,
    pub line: usize,
}

/// Reads the text of one file.
pub fn read(text: &str) -> Source {
    let tokens = tokens(text);
    let mut scan = Scan { tokens: &tokens, at: 0 };
    scan.module()
}

struct Scan<'a> {
    tokens: &'a [Token],
    at: usize,
}

impl Scan<'_> {
    fn text(&self, ahead: usize) -> &str {
        self.tokens.get(self.at + ahead).map_or("", |token| &token.text)
    }

    fn line(&self) -> usize {
        self.tokens.get(self.at).map_or(0, |token| token.line)
    }

    /// Whether `pub` stands before this word. `pub(crate)` does not count.
    fn is_public(&self) -> bool {
        let mut words = self.tokens[..self.at].iter().rev().map(|token| token.text.as_str());
        words.find(|word| !matches!(*word, "async" | "const" | "unsafe")) == Some("pub")
    }

    /// Up to the brace that closes the module, or the end of the file.
    fn module(&mut self) -> Source {
        let mut source = Source::default();
        let mut depth = 0;
        while self.at < self.tokens.len() {
            match self.text(0) {
                "{" => depth += 1,
                "}" if depth == 0 => break,
                "}" => depth -= 1,
                "#" if self.text(1) == "[" => {
                    if self.attribute_is_test() {
                        self.skip_item();
                    }
                    continue;
                }
                "use" => {
                    self.import(depth == 0, &mut source);
                    continue;
                }
                "mod" if depth == 0 && (self.text(2) == ";" || self.text(2) == "{") => {
                    self.child(&mut source);
                    continue;
                }
                // The qualifier of a function, which follows.
                "const" if matches!(self.text(1), "fn" | "async" | "unsafe") => {}
                "struct" | "enum" | "union" | "trait" | "fn" | "type" | "const" | "static" if depth == 0 => {
                    source.items.push(Item { name: self.text(1).to_owned(), public: self.is_public() });
                }
                "crate" | "super" | "self" if self.text(1) == "::" => {
                    let line = self.line();
                    let path = self.path();
                    source.paths.push(Named { path, line });
                    continue;
                }
                _ => {}
            }
            self.at += 1;
        }
        source
    }

    /// Steps over an attribute and says whether its item exists in tests only.
    fn attribute_is_test(&mut self) -> bool {
        let begin = self.at;
        self.at += 1;
        self.skip_group();
        let words: Vec<&str> = self.tokens[begin..self.at].iter().map(|token| token.text.as_str()).collect();
        words == ["#", "[", "test", "]"] || (words.get(2) == Some(&"cfg") && words.contains(&"test"))
    }

    /// From an opening bracket to behind its closing one.
    fn skip_group(&mut self) {
        let mut depth = 0;
        while self.at < self.tokens.len() {
            match self.text(0) {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => depth -= 1,
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                return;
            }
        }
    }

    /// To behind the `;` or the closing brace of the next item.
    fn skip_item(&mut self) {
        while self.at < self.tokens.len() {
            match self.text(0) {
                ";" => {
                    self.at += 1;
                    return;
                }
                "{" => return self.skip_group(),
                "(" | "[" => self.skip_group(),
                _ => self.at += 1,
            }
        }
    }

    fn child(&mut self, source: &mut Source) {
        let name = self.text(1).to_owned();
        let (public, inline) = (self.is_public(), self.text(2) == "{");
        self.at += 3;
        let inline = inline.then(|| {
            let body = self.module();
            self.at += 1;
            body
        });
        source.children.push(Child { name, public, inline });
    }

    /// `a::b::c` from its first word.
    fn path(&mut self) -> Vec<String> {
        let mut path = vec![self.text(0).to_owned()];
        self.at += 1;
        while self.text(0) == "::" && is_name(self.text(1)) {
            path.push(self.text(1).to_owned());
            self.at += 2;
        }
        path
    }

    fn import(&mut self, at_the_top: bool, source: &mut Source) {
        let public = self.is_public();
        self.at += 1;
        let mut leaves = Vec::new();
        self.import_tree(&[], &mut leaves);
        for (path, name, line) in leaves {
            source.paths.push(Named { path: path.clone(), line });
            if at_the_top {
                source.imports.push(Import { name, public, path });
            }
        }
    }

    fn import_tree(&mut self, before: &[String], leaves: &mut Vec<(Vec<String>, String, usize)>) {
        let mut path = before.to_vec();
        let line = self.line();
        while self.at < self.tokens.len() {
            match self.text(0) {
                "::" => self.at += 1,
                "*" => {
                    self.at += 1;
                    return leaves.push((path, "*".to_owned(), line));
                }
                "{" => {
                    self.at += 1;
                    while !matches!(self.text(0), "}" | "") {
                        self.import_tree(&path, leaves);
                        if self.text(0) == "," {
                            self.at += 1;
                        }
                    }
                    self.at += 1;
                    return;
                }
                "as" => {
                    let name = self.text(1).to_owned();
                    self.at += 2;
                    return leaves.push((path, name, line));
                }
                word if is_name(word) => {
                    // `{self, …}` names the path before it.
                    if word != "self" || path.is_empty() {
                        path.push(word.to_owned());
                    }
                    self.at += 1;
                }
                _ => break,
            }
        }
        let name = path.last().cloned().unwrap_or_default();
        leaves.push((path, name, line));
    }
}

fn is_name(text: &str) -> bool {
    text.starts_with(|first: char| first.is_alphabetic() || first == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(text: &str) -> Vec<String> {
        read(text).paths.iter().map(|named| format!("{} {}", named.line, named.path.join("::"))).collect()
    }

    #[test]
    fn imports_and_paths_in_bodies_are_found() {
        let text = "pub use crate::a::{self, b::C as D, e::*};\nfn f(x: &super::X) {\n use self::y::Z;\n crate::g::h::<u8>();\n self.i();\n}";
        let expected = [
            "1 crate::a",
            "1 crate::a::b::C",
            "1 crate::a::e",
            "2 super::X",
            "3 self::y::Z",
            "4 crate::g::h",
        ];
        assert_eq!(paths(text), expected);
        let names: Vec<String> = read(text).imports.into_iter().map(|import| import.name).collect();
        assert_eq!(names, ["a", "D", "*"]);
    }

    #[test]
    fn public_names_are_told_apart() {
        let source =
            read("pub use a::B; pub(crate) use c::D; pub const fn f() {} const G: u8 = 1; pub mod h;");
        let imports: Vec<bool> = source.imports.iter().map(|import| import.public).collect();
        let items: Vec<bool> = source.items.iter().map(|item| item.public).collect();
        assert_eq!((imports, items, source.children[0].public), (vec![true, false], vec![true, false], true));
    }

    #[test]
    fn tests_are_left_out_and_children_keep_their_order() {
        let text = "mod z;\n#[cfg(test)]\nmod z_tests;\npub(crate) mod a { use crate::q; }\nstruct S;\n\
                    #[cfg(test)]\nmod tests { use crate::x::Y; }\n#[test]\nfn t() { crate::w::v(); }";
        let source = read(text);
        let children: Vec<&str> = source.children.iter().map(|child| child.name.as_str()).collect();
        assert_eq!(children, ["z", "a"]);
        assert!(source.paths.is_empty(), "{:?}", source.paths);
        let items: Vec<&str> = source.items.iter().map(|item| item.name.as_str()).collect();
        assert_eq!(items, ["S"]);
        assert_eq!(source.children[1].inline.as_ref().map(|body| body.paths.len()), Some(1));
    }
}
