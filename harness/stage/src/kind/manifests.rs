//! Adapts the objects of `deploy/` to a run: its namespace, images, configuration and short periods.

use serde_json::{Value, json};

use super::images::Images;
use super::pods::{FAKECLOUD, HEALTH_CHECK, MCM, REMEDIATION};
use crate::deploy::{self, DeployError};

const MCM_FILE: (&str, &str) = (
    "deploy/machine-controller-manager.yaml",
    include_str!("../../../../deploy/machine-controller-manager.yaml"),
);
const FAKECLOUD_FILE: (&str, &str) = (
    "deploy/fakecloud.yaml",
    include_str!("../../../../deploy/fakecloud.yaml"),
);
const HEALTH_CHECK_FILE: (&str, &str) = (
    "deploy/machine-health-check.yaml",
    include_str!("../../../../deploy/machine-health-check.yaml"),
);
const REMEDIATION_FILE: (&str, &str) = (
    "deploy/fakecloud-remediation.yaml",
    include_str!("../../../../deploy/fakecloud-remediation.yaml"),
);
const PRIORITY_FILE: (&str, &str) = (
    "deploy/priority-class.yaml",
    include_str!("../../../../deploy/priority-class.yaml"),
);
const NETWORK_FILE: (&str, &str) = (
    "deploy/network-policies.yaml",
    include_str!("../../../../deploy/network-policies.yaml"),
);

/// The PriorityClass of both programs, which all namespaces of the cluster share.
///
/// # Errors
/// When the file is not a list of objects.
pub(super) fn priority_class() -> Result<Vec<Value>, DeployError> {
    deploy::read(PRIORITY_FILE.0, PRIORITY_FILE.1)
}

/// Settings that differ from the files.
#[derive(Debug)]
pub(super) struct Settings<'a> {
    /// The namespace of all objects.
    pub(super) namespace: &'a str,
    /// The images of both programs.
    pub(super) images: &'a Images,
    /// The number of replicas of mcm.
    pub(super) replicas: u32,
    /// fakecloud's configuration, in YAML.
    pub(super) cloud: String,
    /// The folder on the nodes for fakecloud's ledger. It replaces the volume claim, because a kind cluster may have no
    /// provisioner.
    pub(super) ledger: String,
    /// Additional flags of mcm.
    pub(super) mcm_flags: Vec<String>,
    /// Additional flags of fakecloud.
    pub(super) cloud_flags: Vec<String>,
    /// Additional flags of the process of health checks.
    pub(super) health_check_flags: Vec<String>,
}

impl Settings<'_> {
    /// The objects that mcm requires: fakecloud and the network policies.
    ///
    /// # Errors
    /// When a file of `deploy/` lacks an expected object or part.
    pub(super) fn cloud(&self) -> Result<Vec<Value>, DeployError> {
        let mut objects = self.read(FAKECLOUD_FILE.0, FAKECLOUD_FILE.1)?;
        object(&mut objects, "ConfigMap", FAKECLOUD)?["data"]["fakecloud.yaml"] = json!(self.cloud);
        objects.retain(|object| object["kind"] != "PersistentVolumeClaim");
        let deployment = object(&mut objects, "Deployment", FAKECLOUD)?;
        set_container(deployment, &self.images.fakecloud, &self.cloud_flags)?;
        let volumes = deployment.pointer_mut("/spec/template/spec/volumes");
        let volumes = volumes.and_then(Value::as_array_mut).into_iter().flatten();
        let mut claims = volumes.filter(|volume| volume.get("persistentVolumeClaim").is_some());
        let ledger = claims.next().ok_or(DeployError::NoPart {
            object: "the Deployment fakecloud",
            part: "volume of a claim",
        })?;
        *ledger = json!({ "name": ledger["name"], "hostPath": { "path": self.ledger, "type": "Directory" } });
        objects.extend(self.read(NETWORK_FILE.0, NETWORK_FILE.1)?);
        Ok(objects)
    }

    /// mcm and its disruption budget.
    ///
    /// # Errors
    /// When a file of `deploy/` lacks an expected object or part.
    pub(super) fn mcm(&self) -> Result<Vec<Value>, DeployError> {
        let mut objects = self.read(MCM_FILE.0, MCM_FILE.1)?;
        let deployment = object(&mut objects, "Deployment", MCM)?;
        deployment["spec"]["replicas"] = json!(self.replicas);
        set_container(deployment, &self.images.mcm, &self.mcm_flags)?;
        Ok(objects)
    }

    /// The process that only checks the health of machines.
    ///
    /// # Errors
    /// [`DeployError`]: the file in `deploy/` does not contain the Deployment, or the Deployment has no container.
    pub(super) fn health_checks(&self) -> Result<Vec<Value>, DeployError> {
        let mut objects = self.read(HEALTH_CHECK_FILE.0, HEALTH_CHECK_FILE.1)?;
        let deployment = object(&mut objects, "Deployment", HEALTH_CHECK)?;
        set_container(deployment, &self.images.mcm, &self.health_check_flags)?;
        Ok(objects)
    }

    /// The example remediation controller, which looks at its requests often.
    ///
    /// # Errors
    /// [`DeployError`]: the file in `deploy/` does not contain the Deployment, or the Deployment has no container.
    pub(super) fn remediation(&self) -> Result<Vec<Value>, DeployError> {
        let mut objects = self.read(REMEDIATION_FILE.0, REMEDIATION_FILE.1)?;
        let deployment = object(&mut objects, "Deployment", REMEDIATION)?;
        set_container(deployment, &self.images.fakecloud, &["--period=200ms".to_owned()])?;
        Ok(objects)
    }

    fn read(&self, file: &str, content: &str) -> Result<Vec<Value>, DeployError> {
        let mut objects = deploy::read(file, content)?;
        objects
            .iter_mut()
            .for_each(|object| deploy::place(object, self.namespace));
        Ok(objects)
    }
}

fn object<'a>(objects: &'a mut [Value], kind: &str, name: &str) -> Result<&'a mut Value, DeployError> {
    let found = objects
        .iter_mut()
        .find(|object| object["kind"] == kind && object["metadata"]["name"] == name);
    found.ok_or_else(|| DeployError::NoObject {
        kind: kind.to_owned(),
        name: name.to_owned(),
    })
}

/// Sets the image of a Deployment's only container and adds flags. The nodes do not pull the image, because they
/// already have it.
fn set_container(deployment: &mut Value, image: &str, flags: &[String]) -> Result<(), DeployError> {
    let container = deployment
        .pointer_mut("/spec/template/spec/containers/0")
        .ok_or(DeployError::NoPart {
            object: "a Deployment of deploy/",
            part: "container",
        })?;
    container["image"] = json!(image);
    container["imagePullPolicy"] = json!("Never");
    let arguments = container["args"].as_array_mut();
    let arguments = arguments.ok_or(DeployError::NoPart {
        object: "a container of deploy/",
        part: "arguments",
    })?;
    arguments.extend(flags.iter().map(|flag| json!(flag)));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::system;

    fn images() -> Images {
        Images {
            mcm: "mcm:1".to_owned(),
            fakecloud: "fakecloud:1".to_owned(),
        }
    }

    fn objects() -> Vec<Value> {
        let images = images();
        let settings = Settings {
            namespace: "here",
            images: &images,
            replicas: 3,
            cloud: "zones: [a]".to_owned(),
            ledger: "/ledgers/here".to_owned(),
            mcm_flags: vec!["--short-retry=1s".to_owned()],
            cloud_flags: vec!["--seed=7".to_owned()],
            health_check_flags: vec!["--machine-health-check-interval=1s".to_owned()],
        };
        let mut objects = settings.cloud().unwrap();
        objects.extend(settings.mcm().unwrap());
        objects.extend(settings.health_checks().unwrap());
        objects.extend(settings.remediation().unwrap());
        objects
    }

    #[test]
    fn all_objects_are_in_the_namespace_of_the_run() {
        let objects = objects();
        assert!(objects.len() >= 9);
        assert!(objects.iter().all(|object| object["metadata"]["namespace"] == "here"));
        assert!(!serde_json::to_string(&objects).unwrap().contains("\"drydock\""));
    }

    #[test]
    fn objects_have_the_images_flags_and_configuration_of_the_run() {
        let mut objects = objects();
        let mcm = object(&mut objects, "Deployment", MCM).unwrap().clone();
        assert_eq!(mcm["spec"]["replicas"], 3);
        let container = &mcm["spec"]["template"]["spec"]["containers"][0];
        assert_eq!(container["image"], "mcm:1");
        let arguments = container["args"].as_array().unwrap();
        assert_eq!(arguments.last().unwrap(), "--short-retry=1s");
        let configuration = object(&mut objects, "ConfigMap", FAKECLOUD).unwrap();
        assert_eq!(configuration["data"]["fakecloud.yaml"], "zones: [a]");
    }

    #[test]
    fn no_deployed_pod_may_run_on_a_simulated_node() {
        let required = "/spec/template/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution";
        let objects = objects();
        let deployments = objects.iter().filter(|object| object["kind"] == "Deployment");
        let patched = system::affinity();
        let mut count = 0;
        for object in deployments.chain([&patched]) {
            let terms = &object.pointer(required).unwrap()["nodeSelectorTerms"];
            let expected =
                json!([{ "matchExpressions": [{ "key": fakecloud::SIMULATED, "operator": "DoesNotExist" }] }]);
            assert_eq!(terms, &expected, "{}", object["metadata"]["name"]);
            count += 1;
        }
        assert_eq!(count, 5);
    }

    #[test]
    fn pods_have_the_priority_of_machine_controllers() {
        let classes = priority_class().unwrap();
        let [class] = classes.as_slice() else {
            panic!("{classes:?}")
        };
        for object in objects().iter().filter(|object| object["kind"] == "Deployment") {
            let name = &object["spec"]["template"]["spec"]["priorityClassName"];
            assert_eq!(name, &class["metadata"]["name"]);
        }
    }

    /// Value of an argument of a Deployment's container.
    fn argument<'a>(deployment: &'a Value, flag: &str) -> &'a str {
        let arguments = &deployment["spec"]["template"]["spec"]["containers"][0]["args"];
        let arguments = arguments.as_array().unwrap().iter();
        let mut found = arguments.filter_map(|argument| argument.as_str()?.strip_prefix(&format!("--{flag}=")));
        found.next().unwrap_or_else(|| panic!("{deployment} has no --{flag}"))
    }

    #[test]
    fn metrics_are_on_loopback_and_the_network_policies_open_only_the_apis_of_fakecloud() {
        let mut objects = objects();
        for name in [MCM, FAKECLOUD] {
            let deployment = object(&mut objects, "Deployment", name).unwrap();
            assert!(argument(deployment, "metrics-address").starts_with("127.0.0.1:"));
        }
        let mut opened = Vec::new();
        for policy in objects.iter().filter(|object| object["kind"] == "NetworkPolicy") {
            let rules = policy["spec"]["ingress"].as_array().into_iter().flatten();
            for rule in rules {
                let from = &rule["from"][0]["podSelector"]["matchLabels"]["app.kubernetes.io/name"];
                opened.push(format!("{from} {}", rule["ports"]));
            }
        }
        let open = |to: &str, port: u16| format!("\"{to}\" [{{\"port\":{port},\"protocol\":\"TCP\"}}]");
        assert_eq!(opened, [open(MCM, 7300), open(REMEDIATION, 7302)]);
    }

    #[test]
    fn faults_need_another_authority_than_the_driver_api() {
        let mut objects = objects();
        let fakecloud = object(&mut objects, "Deployment", FAKECLOUD).unwrap();
        let (driver, control) = (
            argument(fakecloud, "tls-client-ca"),
            argument(fakecloud, "tls-control-ca"),
        );
        assert_ne!(driver, control);
        assert!(argument(fakecloud, "control-address").ends_with(":7302"));
        let mcm = object(&mut objects, "Deployment", MCM).unwrap();
        let volumes = mcm["spec"]["template"]["spec"]["volumes"].to_string();
        assert!(!volumes.contains("fakecloud-control-tls"), "{volumes}");
    }

    #[test]
    fn pods_have_restricted_security_contexts() {
        for object in objects().iter().filter(|object| object["kind"] == "Deployment") {
            let spec = &object["spec"]["template"]["spec"];
            assert_eq!(spec["securityContext"]["runAsNonRoot"], true);
            assert_eq!(spec["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
            let container = &spec["containers"][0];
            assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true);
            assert_eq!(container["securityContext"]["capabilities"]["drop"], json!(["ALL"]));
            assert!(container["resources"]["requests"]["memory"].is_string());
            assert!(container["readinessProbe"].is_object() && container["livenessProbe"].is_object());
        }
    }
}
