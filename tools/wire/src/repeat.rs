//! Large bodies in few words: `<<COUNT|SEPARATOR|TEXT>>` stands for `TEXT`, repeated. `#` in it is the number of the
//! repetition, from zero.

/// Writes out every repetition of a text.
pub fn expand(text: &str) -> String {
    let mut new = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("<<") {
        new.push_str(&rest[..at]);
        match repetition(&rest[at + 2..]) {
            Some((written, after)) => {
                new.push_str(&written);
                rest = after;
            }
            None => {
                new.push_str("<<");
                rest = &rest[at + 2..];
            }
        }
    }
    new.push_str(rest);
    new
}

/// The text after `<<`, written out, and the rest behind it. `None` if it is no repetition.
fn repetition(text: &str) -> Option<(String, &str)> {
    let (count, rest) = text.split_once('|')?;
    let count: usize = count.parse().ok()?;
    let (separator, rest) = rest.split_once('|')?;
    let (unit, after) = rest.split_once(">>")?;
    let written: Vec<String> = (0..count).map(|at| unit.replace('#', &at.to_string())).collect();
    Some((written.join(separator), after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repetitions_are_written_out_and_all_else_stays() {
        assert_eq!(expand("a<<3|,|\"k#\">>b"), "a\"k0\",\"k1\",\"k2\"b");
        assert_eq!(expand("<<2||[>><<2||]>>"), "[[]]");
        assert_eq!(expand("<<EOF << 2|x"), "<<EOF << 2|x");
    }
}
