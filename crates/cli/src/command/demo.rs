//! `setpoint up --demo`: the three example operators on the cluster that was just started, with their samples.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use kube::api::{Patch, PatchParams};
use kube::core::DynamicObject;
use kube::{Api, Client, ResourceExt, discovery};
use serde_json::{Value, json};
use setpoint::program::Program;
use setpoint_node::process::image::{Image, ImageTable};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// How long a new definition may take to be served.
const ESTABLISHED: Duration = Duration::from_secs(10);

/// The operators with the namespace and text of their sample.
const SAMPLES: [(&str, &str); 3] = [
    ("foo", include_str!("../../../../examples/foo/samples/foo.yaml")),
    ("myresource", include_str!("../../../../examples/myresource/samples/myresource.yaml")),
    ("default", include_str!("../../../../examples/markdownview/samples/markdownview.yaml")),
];

const TEXT: &str = "
Three operators run on this cluster: Foo (namespace foo), MyResource (namespace myresource) and MarkdownView
(namespace default). Try, in another terminal:

  export KUBECONFIG={kubeconfig}
  kubectl get deployment,service,configmap
  kubectl get markdownview markdownview-sample
  kubectl port-forward svc/viewer-markdownview-sample 3000:80     then open http://localhost:3000
  kubectl edit markdownview markdownview-sample                   and look at the page again
  kubectl scale --namespace foo deployment example-foo --replicas=5; kubectl get --namespace foo deployment --watch
";

/// The demo's image table: the viewer is this program itself.
pub fn images() -> Result<ImageTable> {
    let program = std::env::current_exe()?.to_string_lossy().into_owned();
    let viewer = Image {
        pattern: "peaceiris/mdbook:*".into(),
        programs: [("mdbook".to_owned(), vec![program, "viewer".to_owned()])].into(),
        default: Some("mdbook".into()),
        args: vec!["serve".into()],
        working_dir: Some("/book".into()),
        exec: false,
    };
    Ok(ImageTable { images: vec![viewer] })
}

/// Starts the operators with the kubeconfig that `up` wrote, and applies definitions and samples.
pub async fn start(kubeconfig: &Path, operators: &mut JoinSet<()>, stop: &CancellationToken) -> Result<()> {
    let program = |name: &str| Program {
        name: name.into(),
        kubeconfig: Some(kubeconfig.to_path_buf()),
        ..Program::default()
    };
    let client = Client::try_from(program("demo").config().await?)?;
    for definition in
        [foo_controller::definition(), myresource_operator::definition(), markdownview_operator::definition()]
    {
        apply(&client, None, &definition).await?;
    }
    let foo = program(foo_controller::NAME).manager().await?;
    foo_controller::register(&foo)?;
    let myresource = program(myresource_operator::NAME).manager().await?;
    myresource_operator::register(&myresource)?;
    let markdownview = program(markdownview_operator::NAME).manager().await?;
    markdownview_operator::register(&markdownview)?;
    for manager in [foo, myresource, markdownview] {
        let stop = stop.clone();
        operators.spawn(async move {
            if let Err(error) = manager.run(stop.cancelled()).await {
                tracing::error!(%error, "an operator stopped");
            }
        });
    }
    for (namespace, sample) in SAMPLES {
        if namespace != "default" {
            let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
            apply(&client, None, &object).await?;
        }
        apply(&client, Some(namespace), &serde_saphyr::from_str(sample)?).await?;
    }
    let text = TEXT.replace("{kubeconfig}", &kubeconfig.display().to_string());
    // Whoever reads the first line only and closes the pipe still wants the cluster.
    let _ = writeln!(std::io::stdout(), "{}", text.trim_end());
    Ok(())
}

/// Applies one object of any kind; a kind that was defined a moment ago is waited for.
async fn apply(client: &Client, namespace: Option<&str>, object: &Value) -> Result<()> {
    let object: DynamicObject = serde_json::from_value(object.clone())?;
    let types = object.types.clone().context("an object without kind")?;
    let kind = kube::core::GroupVersionKind::try_from(&types)?;
    let found = async {
        loop {
            if let Ok(found) = discovery::pinned_kind(client, &kind).await {
                return found;
            }
            tokio::task::yield_now().await;
        }
    };
    let (resource, _) = tokio::time::timeout(ESTABLISHED, found)
        .await
        .with_context(|| format!("{} is not served", types.kind))?;
    let api: Api<DynamicObject> = match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    api.patch(&object.name_any(), &PatchParams::apply("setpoint-demo").force(), &Patch::Apply(&object))
        .await?;
    Ok(())
}
