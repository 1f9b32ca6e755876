//! `setpoint up --demo`: the three example operators and their samples, on the new cluster.

use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use foo_controller::Foo;
use futures::TryStreamExt;
use kube::api::{Patch, PatchParams, WatchEvent, WatchParams};
use kube::core::DynamicObject;
use kube::{Api, Client, ResourceExt, discovery};
use markdownview_operator::MarkdownView;
use myresource_operator::MyResource;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use setpoint::program::Program;
use setpoint_node::{Image, ImageTable, Trust};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Time that a new definition may take to be served.
const ESTABLISHED: Duration = Duration::from_secs(10);

/// Pause before a watch that ended is opened again.
const WATCH_AGAIN: Duration = Duration::from_millis(100);
/// Time after which the command reports unhealthy samples. Two seconds are promised.
const HEALTHY: Duration = Duration::from_secs(60);

/// The operators, with the namespace and text of their samples.
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
        // The viewer reads a book and serves it, whatever its arguments are.
        trust: Trust::Host,
        programs: [("mdbook".to_owned(), vec![program, "viewer".to_owned()])].into(),
        default: Some("mdbook".into()),
        args: vec!["serve".into()],
        working_dir: Some("/book".into()),
        ..Image::default()
    };
    Ok(ImageTable { images: vec![viewer] })
}

/// Starts the operators with the kubeconfig that `up` wrote, applies definitions and samples, and reports when all
/// three are healthy.
pub async fn start(kubeconfig: &Path, operators: &mut JoinSet<()>, stop: &CancellationToken) -> Result<()> {
    let ready = Instant::now();
    let program = |name: &str| {
        Program::with(|program| {
            program.name = name.into();
            program.kubeconfig = Some(kubeconfig.to_path_buf());
        })
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
                tracing::error!(%error, "operator stopped");
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
    // A reader may close the pipe after the first line and still want the cluster.
    let _ = writeln!(std::io::stdout(), "{}", text.trim_end());
    let stop = stop.clone();
    operators.spawn(async move {
        let healthy = tokio::time::timeout(HEALTHY, all_healthy(&client));
        let Some(healthy) = stop.run_until_cancelled(healthy).await else { return };
        let said = match healthy {
            Ok(()) => format!("all healthy {} ms after ready", ready.elapsed().as_millis()),
            Err(_) => format!("the samples are not healthy after {} s", HEALTHY.as_secs()),
        };
        let _ = writeln!(std::io::stdout(), "\n{said}");
    });
    Ok(())
}

/// Waits until each of the three samples is healthy.
async fn all_healthy(client: &Client) {
    let foos: Api<Foo> = Api::namespaced(client.clone(), "foo");
    until(foos, "example-foo", |foo| {
        foo.status.as_ref().is_some_and(|status| status.available_replicas == foo.spec.replicas)
    })
    .await;
    let resources: Api<MyResource> = Api::namespaced(client.clone(), "myresource");
    until(resources, "my-res1", |resource| {
        resource.status.as_ref().is_some_and(|status| status.state == myresource_operator::State::Ready)
    })
    .await;
    let views: Api<MarkdownView> = Api::namespaced(client.clone(), "default");
    let healthy = Some(markdownview_operator::State::Healthy);
    until(views, "markdownview-sample", |view| {
        view.status.as_ref().and_then(|status| status.state) == healthy
    })
    .await;
}

/// Watches one object until `wanted` is true, again and again if the watch breaks.
async fn until<K>(api: Api<K>, name: &str, wanted: impl Fn(&K) -> bool)
where
    K: kube::Resource + Clone + DeserializeOwned + std::fmt::Debug,
{
    while !watch(&api, name, &wanted).await.unwrap_or_else(|error| {
        tracing::debug!(%error, name, "could not watch the sample; retrying");
        false
    }) {
        tokio::time::sleep(WATCH_AGAIN).await;
    }
}

/// Returns whether `wanted` became true before the watch ended.
async fn watch<K>(api: &Api<K>, name: &str, wanted: impl Fn(&K) -> bool) -> kube::Result<bool>
where
    K: kube::Resource + Clone + DeserializeOwned + std::fmt::Debug,
{
    let only = WatchParams::default().fields(&format!("metadata.name={name}"));
    // Starts with the present state: the first event is the object as it is.
    let mut events = std::pin::pin!(api.watch(&only, "0").await?);
    while let Some(event) = events.try_next().await? {
        if let WatchEvent::Added(object) | WatchEvent::Modified(object) = event
            && wanted(&object)
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Applies one object of any kind. Waits for a kind that was defined a moment ago.
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
