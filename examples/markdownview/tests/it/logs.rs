//! The lines that each step logs.

use markdownview_operator::MarkdownView;
use operator_testing::log_lines::{lines, listen};
use operator_testing::{World, until};

use super::{OPERATOR, until_gone, until_state, view};

#[tokio::test(start_paused = true)]
async fn each_step_is_a_line() {
    listen("markdownview_operator");
    let world = World::start(OPERATOR).await;
    world.apply(&view("sample", 1)).await;
    until_state(&world, "sample", "Healthy").await;
    let first = lines("default/sample");
    let wanted = [
        "reconciled the config map operation=Created",
        "reconciled the deployment",
        "reconciled the service",
        "updating status state=NotReady",
    ];
    assert_eq!(first[..4], wanted);
    let wanted = [
        "reconciled the config map operation=Unchanged",
        "reconciled the deployment",
        "reconciled the service",
        "updating status state=Healthy",
    ];
    assert!(first.windows(4).any(|four| four == wanted), "{first:#?}");
    world.delete::<MarkdownView>("sample").await;
    until_gone(&world, "sample").await;
    let wanted = "the view is not found; removing its metrics";
    until(wanted, async || lines("default/sample").iter().any(|line| line == wanted).then_some(())).await;
}
