//! Installs CustomResourceDefinitions for tests.

use std::path::Path;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Patch, PatchParams};
use kube::{Api, CustomResourceExt, ResourceExt};

use crate::cluster::Cluster;

/// The reason why a definition is not served.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// The server refused it.
    #[error(transparent)]
    Refused(#[from] kube::Error),
    /// A file could not be read.
    #[error("{path}: {message}")]
    File {
        /// The file's path.
        path: String,
        /// The cause.
        message: String,
    },
}

impl Cluster {
    /// Installs the definition of a derived type. The kind is served when this returns.
    ///
    /// # Errors
    /// When the server refuses it.
    pub async fn install<K: CustomResourceExt>(&self) -> Result<(), InstallError> {
        self.install_definition(&K::crd()).await
    }

    /// Installs a definition.
    ///
    /// # Errors
    /// When the server refuses it.
    pub async fn install_definition(
        &self,
        definition: &CustomResourceDefinition,
    ) -> Result<(), InstallError> {
        let api: Api<CustomResourceDefinition> = Api::all(self.client());
        let parameters = PatchParams::apply("setpoint-cluster").force();
        api.patch(&definition.name_any(), &parameters, &Patch::Apply(definition)).await?;
        Ok(())
    }

    /// Installs every definition in the YAML and JSON files of a folder, and skips other objects.
    ///
    /// # Errors
    /// When a file cannot be read, or the server refuses a definition.
    pub async fn install_folder(&self, folder: &Path) -> Result<(), InstallError> {
        let failed = |path: &Path, error: &dyn std::fmt::Display| InstallError::File {
            path: path.display().to_string(),
            message: error.to_string(),
        };
        let mut paths = Vec::new();
        for entry in std::fs::read_dir(folder).map_err(|error| failed(folder, &error))? {
            paths.push(entry.map_err(|error| failed(folder, &error))?.path());
        }
        paths.sort();
        for path in paths.iter().filter(|path| is_manifest(path)) {
            let text = std::fs::read_to_string(path).map_err(|error| failed(path, &error))?;
            for document in text.split("\n---") {
                let object: serde_json::Value = serde_saphyr::from_str(document.trim_start_matches("---"))
                    .map_err(|error| failed(path, &error))?;
                if object["kind"] == "CustomResourceDefinition" {
                    let definition = serde_json::from_value(object).map_err(|error| failed(path, &error))?;
                    self.install_definition(&definition).await?;
                }
            }
        }
        Ok(())
    }
}

fn is_manifest(path: &Path) -> bool {
    path.extension().is_some_and(|extension| ["yaml", "yml", "json"].iter().any(|known| extension == *known))
}
