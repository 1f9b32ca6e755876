//! The report as one HTML page: no script, no file from elsewhere.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::campaign::Visited;
use crate::finding::Finding;
use crate::page::escape;

/// Everything that the page shows.
pub struct Summary<'a> {
    /// The name of the operator.
    pub subject: &'a str,
    /// The number of steps.
    pub steps: usize,
    /// The number of runs.
    pub runs: usize,
    /// The findings.
    pub findings: &'a [Finding],
    /// The advisories.
    pub advisories: &'a [Finding],
    /// Faults that were not tried.
    pub notes: &'a [String],
    /// The visited plans, by kind of fault.
    pub kinds: Vec<(&'static str, Visited)>,
    /// The visited plans, by step and kind of fault.
    pub matrix: &'a BTreeMap<(usize, &'static str), Visited>,
}

const STYLE: &str = "
:root { color-scheme: light dark; font: 15px/1.4 system-ui, sans-serif; }
body { margin: 2rem auto; max-width: 90rem; padding: 0 1rem; }
table { border-collapse: collapse; margin: .5rem 0; }
td, th { border: 1px solid #8886; padding: .2rem .5rem; text-align: left; vertical-align: top; }
td.found { background: #d336; font-weight: bold; }
td.number { text-align: right; }
.runs { display: grid; grid-template-columns: repeat(auto-fit, minmax(30rem, 1fr)); gap: 1rem; }
.lanes { display: grid; grid-template-columns: 5rem repeat(var(--lanes), minmax(8rem, 1fr)); gap: .2rem .5rem; }
.time { grid-column: 1; color: #888; font-variant-numeric: tabular-nums; }
.box { border: 1px solid #8886; border-radius: .3rem; padding: .1rem .4rem; overflow-wrap: anywhere; }
.box i { color: #888; }
.fault { grid-column: 1 / -1; background: #d33; color: #fff; padding: .1rem .5rem; text-align: center; }
.more { grid-column: 1 / -1; color: #888; }
pre { border: 1px solid #8886; overflow-x: auto; padding: .5rem; }
";

/// Writes the page.
pub fn html(summary: &Summary<'_>) -> String {
    let subject = escape(summary.subject);
    let mut page = String::from("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    let policy = "default-src 'none'; style-src 'unsafe-inline'";
    let _ = writeln!(page, "<meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">");
    let _ = writeln!(page, "<title>{subject}: proof</title>\n<style>{STYLE}</style>\n</head>\n<body>");
    let found = summary.findings.len();
    let _ = writeln!(page, "<h1>{subject}</h1>");
    let _ = writeln!(
        page,
        "<p id=\"summary\">{found} findings, {} steps, {} runs</p>",
        summary.steps, summary.runs
    );
    for (number, finding) in summary.findings.iter().enumerate() {
        one(&mut page, number + 1, finding);
    }
    matrix(&mut page, summary);
    let advisories = summary.advisories.iter().map(|advisory| advisory.headline.as_str());
    let notes = advisories.chain(summary.notes.iter().map(String::as_str));
    let notes: String = notes.map(|note| format!("<li>{}</li>\n", escape(note))).collect();
    if !notes.is_empty() {
        let _ = writeln!(page, "<h2>Notes</h2>\n<ul>\n{notes}</ul>");
    }
    page.push_str("</body>\n</html>\n");
    page
}

fn one(page: &mut String, number: usize, finding: &Finding) {
    let _ = writeln!(page, "<article id=\"finding-{number}\">\n<h2>✗ {}</h2>", escape(&finding.headline));
    let plan = finding.plan.as_ref().map_or_else(|| "without any fault".to_owned(), ToString::to_string);
    let _ = writeln!(page, "<p>{}: {}</p>", finding.oracle.name(), escape(&plan));
    page.push_str(&finding.page);
    let _ =
        writeln!(page, "<details><summary>As text</summary><pre>{}</pre></details>", escape(&finding.trace));
    let _ =
        writeln!(page, "<details><summary>Plan file</summary><pre>{}</pre></details>", escape(&finding.file));
    page.push_str("</article>\n");
}

/// Writes the counts of plans by kind of fault and step.
fn matrix(page: &mut String, summary: &Summary<'_>) {
    page.push_str("<h2>Visited</h2>\n<table id=\"matrix\">\n<tr><th>fault</th>");
    for step in 1..=summary.steps {
        let _ = write!(page, "<th>step {step}</th>");
    }
    page.push_str(
        "<th>plans</th><th>run</th><th>known states</th><th>not reached</th><th>left out</th></tr>\n",
    );
    for (kind, total) in &summary.kinds {
        let _ = write!(page, "<tr><td>{}</td>", escape(kind));
        for step in 1..=summary.steps {
            let found = summary.findings.iter().filter(|finding| {
                finding.plan.as_ref().is_some_and(|plan| plan.step == step && plan.at.kind() == *kind)
            });
            let found = found.count();
            let count = summary.matrix.get(&(step, *kind)).copied().unwrap_or_default();
            let (class, text) = match found {
                0 => ("number", count.plans.to_string()),
                found => ("found", format!("{} ({found} ✗)", count.plans)),
            };
            let _ = write!(page, "<td class=\"{class}\">{text}</td>");
        }
        let left = total.plans.saturating_sub(total.run + total.known);
        for number in [total.plans, total.run, total.known, total.missed, left] {
            let _ = write!(page, "<td class=\"number\">{number}</td>");
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</table>\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Oracle;
    use crate::plan::{Fault, Plan};

    #[test]
    fn a_page_shows_findings_and_counts_and_loads_nothing() {
        let mut finding = Finding::new(Oracle::Convergence, "a", "a<b> is \"missing\"".to_owned());
        finding.plan = Some(Plan { step: 2, at: Fault::Restart });
        finding.page = "<div class=\"runs\">the lanes</div>\n".to_owned();
        finding.trace = "POST a & b".to_owned();
        let visited = Visited { plans: 5, run: 3, known: 1, missed: 1 };
        let matrix = BTreeMap::from([((2, "restart at rest"), visited)]);
        let findings = [finding];
        let page = html(&Summary {
            subject: "store",
            steps: 2,
            runs: 9,
            findings: &findings,
            advisories: &[],
            notes: &["stale restart: not tried".to_owned()],
            kinds: vec![("restart at rest", visited)],
            matrix: &matrix,
        });
        assert!(page.contains("<h2>✗ a&lt;b&gt; is &quot;missing&quot;</h2>"), "{page}");
        assert!(page.contains("POST a &amp; b") && page.contains("the lanes"), "{page}");
        assert!(page.contains("<td class=\"number\">0</td><td class=\"found\">5 (1 ✗)</td>"), "{page}");
        assert!(page.contains("<li>stale restart: not tried</li>"), "{page}");
        for elsewhere in ["<script", "src=", "href=", "http://", "https://", "@import", "url("] {
            assert!(!page.contains(elsewhere), "{elsewhere} in {page}");
        }
    }
}
