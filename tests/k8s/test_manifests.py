#!/usr/bin/env python3
"""deploy/k8s: every manifest is valid Kubernetes, keeps to restricted pod security, and agrees with
the others, with the cluster file in the ConfigMap and with the programs."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "build/tools/kubernetes_validate"))  # put there by fetch.sh

try:
    import kubernetes_validate
    import yaml
except ImportError as error:
    sys.exit(f"{error}; tests/k8s/fetch.sh fetches what this test needs")

K8S = ROOT / "deploy/k8s"
BIN = pathlib.Path(os.environ.get("BATON_BIN", ROOT / "build/release/bin"))
KUBERNETES = "1.37.0"
ROLES = ("router", "prefill", "decode")
POD = {"metadata.name": "baton-decode-6f8c9d7b5c-x2x4z", "status.podIP": "10.2.3.4"}
GRACE_SECONDS = 15  # on top of the drain
MOST_SHM = "64Mi"


def documents():
    """(file name, object) of every manifest."""
    for path in sorted(K8S.glob("*.yaml")):
        if path.name != "kustomization.yaml":
            for document in yaml.safe_load_all(path.read_text(encoding="utf-8")):
                yield path.name, document


def objects(kind):
    return {doc["metadata"]["name"]: doc for _, doc in documents() if doc["kind"] == kind}


def deployment(role):
    return objects("Deployment")[f"baton-{role}"]


def pod_of(role):
    return deployment(role)["spec"]["template"]["spec"]


def container_of(role):
    (container,) = pod_of(role)["containers"]
    return container


def cluster_text():
    return objects("ConfigMap")["baton-cluster"]["data"]["cluster.yaml"]


def cluster():
    return yaml.safe_load(cluster_text())


def port_of(address):
    return int(address.rsplit(":", 1)[1])


def seconds(duration):
    return int(re.fullmatch(r"(\d+)s", duration)[1])


def ports_of(role):
    """name to number, as the cluster file has them."""
    config = cluster()
    if role == "router":
        return {"http": port_of(config["router"]["listen"]),
                "control": port_of(config["router"]["control"])}
    (entry,) = config[role]
    ports = {"http": port_of(entry["http"])}
    if role == "decode":  # prefill workers connect to these
        ports["transfer"] = port_of(entry["listen"])
    return ports


def labels_of(role):
    return {"app.kubernetes.io/name": "baton", "app.kubernetes.io/component": role}


class ManifestTest(unittest.TestCase):
    def test_every_manifest_is_valid(self):
        for name, document in documents():
            with self.subTest(name):
                kubernetes_validate.validate(document, KUBERNETES, strict=True)

    def test_the_validator_refuses_what_is_wrong(self):
        wrong = deployment("router")
        wrong["spec"]["template"]["spec"]["terminationGracePeriod"] = 45
        with self.assertRaises(kubernetes_validate.ValidationError):
            kubernetes_validate.validate(wrong, KUBERNETES, strict=True)

    def test_kustomization_names_every_manifest_but_examples(self):
        listed = yaml.safe_load((K8S / "kustomization.yaml").read_text())["resources"]
        there = {name for name, _ in documents() if not name.endswith(".example.yaml")}
        self.assertEqual(sorted(listed), sorted(there))

    def test_all_is_in_one_namespace(self):
        for name, document in documents():
            where = document["metadata"].get("namespace", document["metadata"]["name"])
            self.assertEqual(where, "baton", name)

    def test_pods_keep_to_restricted_security(self):
        for role in ROLES:
            pod, container = pod_of(role), container_of(role)
            with self.subTest(role):
                context = pod["securityContext"]
                self.assertTrue(context["runAsNonRoot"])
                self.assertEqual(context["runAsUser"], 10001)
                self.assertEqual(context["fsGroup"], 10001)
                self.assertEqual(context["seccompProfile"], {"type": "RuntimeDefault"})
                self.assertEqual(container["securityContext"], {
                    "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
                    "capabilities": {"drop": ["ALL"]}})
                self.assertFalse(pod["automountServiceAccountToken"])
                for key in ("hostNetwork", "hostPID", "hostIPC", "initContainers"):
                    self.assertNotIn(key, pod)
                for volume in pod["volumes"]:
                    kinds = set(volume) - {"name"}
                    self.assertLessEqual(kinds, {"configMap", "projected", "emptyDir",
                                                 "persistentVolumeClaim"})

    def test_user_is_that_of_the_image(self):
        dockerfile = (ROOT / "deploy/Dockerfile").read_text(encoding="utf-8")
        self.assertIn("\nUSER 10001:10001\n", dockerfile)

    def test_image_has_the_version_of_the_programs(self):
        said = subprocess.run([BIN / "baton", "--version"], check=True, capture_output=True,
                              text=True).stdout
        for role in ROLES:
            self.assertEqual(container_of(role)["image"], f"baton:{said.split()[1]}")

    def test_grace_period_is_the_drain_and_15_seconds(self):
        config = cluster()
        for role in ROLES:
            drain = seconds(config["router" if role == "router" else "workers"]["drain"])
            self.assertEqual(pod_of(role)["terminationGracePeriodSeconds"], drain + GRACE_SECONDS)
        sleep = container_of("router")["lifecycle"]["preStop"]["sleep"]["seconds"]
        self.assertLess(sleep, GRACE_SECONDS)

    def test_resources_are_guaranteed_and_whole_cpus(self):
        for role in ROLES:
            resources = container_of(role)["resources"]
            self.assertEqual(resources["requests"], resources["limits"])
            self.assertRegex(resources["limits"]["cpu"], r"^\d+$")
            self.assertIn("memory", resources["limits"])

    def test_probes_ask_the_health_paths(self):
        for role in ROLES:
            container = container_of(role)
            for probe, path in (("startupProbe", "/livez"), ("livenessProbe", "/livez"),
                                ("readinessProbe", "/readyz")):
                self.assertEqual(container[probe]["httpGet"], {"path": path, "port": "http"})

    def test_shared_memory_is_a_bounded_memory_volume(self):
        for role in ROLES:
            volumes = {volume["name"]: volume for volume in pod_of(role)["volumes"]}
            self.assertEqual(volumes["shm"]["emptyDir"], {"medium": "Memory", "sizeLimit": MOST_SHM})
            mounts = {mount["mountPath"]: mount for mount in container_of(role)["volumeMounts"]}
            self.assertEqual(mounts["/dev/shm"]["name"], "shm")
            self.assertTrue(mounts["/models"]["readOnly"])
            self.assertEqual({mount["name"] for mount in mounts.values()}, set(volumes))

    def test_files_of_the_configuration_are_mounted(self):
        config = cluster()
        for role in ROLES:
            mounts = [mount["mountPath"] for mount in container_of(role)["volumeMounts"]]
            files = [config["model"]["path"], config["cluster"]["key_file"]]
            files += [config["router"]["api_keys_file"]] if role == "router" else []
            for file in files:
                self.assertIn(str(pathlib.PurePosixPath(file).parent), mounts)
            keys = next(v for v in pod_of(role)["volumes"] if v["name"] == "keys")["projected"]
            secrets = [source["secret"]["name"] for source in keys["sources"]]
            held = [key for name in secrets for key in objects("Secret")[name]["stringData"]]
            self.assertEqual(sorted(held), sorted(pathlib.PurePosixPath(f).name for f in files[1:]))
            self.assertEqual(keys["defaultMode"], 0o400)

    def test_ports_are_those_of_the_cluster_file(self):
        services = objects("Service")
        for role in ROLES:
            ports = ports_of(role)
            declared = {port["name"]: port["containerPort"] for port in container_of(role)["ports"]}
            self.assertEqual(declared, ports)
            annotations = deployment(role)["spec"]["template"]["metadata"]["annotations"]
            self.assertEqual(annotations["prometheus.io/port"], str(ports["http"]))
            for service in services.values():
                if service["spec"]["selector"] == labels_of(role):
                    for port in service["spec"]["ports"]:
                        self.assertEqual(port["port"], ports[port["targetPort"]])

    def test_routers_are_found_before_they_are_ready(self):
        """A router is ready once a worker has registered, and workers look it up by this name."""
        (address,) = cluster()["workers"]["routers"]
        name, port = re.fullmatch(r"tcp://([\w-]+):(\d+)", address).groups()
        spec = objects("Service")[name]["spec"]
        self.assertEqual(spec["clusterIP"], "None")
        self.assertTrue(spec["publishNotReadyAddresses"])
        self.assertEqual(spec["selector"], labels_of("router"))
        self.assertEqual(int(port), ports_of("router")["control"])

    def test_selectors_find_their_pods(self):
        for role in ROLES:
            spec = deployment(role)["spec"]
            self.assertEqual(spec["selector"]["matchLabels"], labels_of(role))
            self.assertEqual(spec["template"]["metadata"]["labels"], labels_of(role))
            for kind, where in (("PodDisruptionBudget", "selector"),
                                ("NetworkPolicy", "podSelector")):
                found = objects(kind)[f"baton-{role}"]["spec"][where]
                self.assertEqual(found, {"matchLabels": labels_of(role)}, kind)

    def test_workers_have_names_and_addresses_of_their_own(self):
        for role in ("prefill", "decode"):
            args = container_of(role)["args"]
            self.assertIn("worker.name=$(POD_NAME)", args)
            self.assertIn(f"worker.advertise=$(POD_IP):{ports_of(role).get('transfer', 0)}", args)
            self.assertEqual(cluster()["workers"]["share_machine"], False)
            self.assertIn("ucx-tcp", cluster()["transfer"]["transports"])

    def test_pods_without_a_key_are_refused_by_the_programs(self):
        text = cluster_text().replace("key_file: /etc/baton/keys/cluster.key", 'key_file: ""')
        done = self.check_config("router", text)
        self.assertEqual(done.returncode, 1)
        self.assertIn("router.control", done.stderr)

    def test_programs_take_the_cluster_file_with_the_arguments_of_their_pods(self):
        for role in ROLES:
            done = self.check_config(role, cluster_text())
            self.assertEqual(done.returncode, 0, done.stderr)
            if role != "router":
                effective = yaml.safe_load(done.stdout)[role][0]
                self.assertEqual(effective["name"], POD["metadata.name"])
                port = ports_of(role).get("transfer", 0)
                self.assertEqual(effective["advertise"], f"{POD['status.podIP']}:{port}")

    def check_config(self, role, text):
        """The role's own command line, with the file in place of the mounted one."""
        container = container_of(role)
        fields = {env["name"]: POD[env["valueFrom"]["fieldRef"]["fieldPath"]]
                  for env in container.get("env", []) if "valueFrom" in env}
        args = [re.sub(r"\$\((\w+)\)", lambda match: fields[match[1]], arg)
                for arg in container["args"]]
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            file.write(text)
            file.flush()
            at = args.index("--config") + 1
            self.assertIn(str(pathlib.PurePosixPath(args[at]).parent),
                          [mount["mountPath"] for mount in container["volumeMounts"]])
            args[at] = file.name
            (program,) = container["command"]
            return subprocess.run([BIN / program, *args, "--check-config"], capture_output=True,
                                  text=True, check=False, timeout=30)


class NetworkPolicyTest(unittest.TestCase):
    """Who may talk to whom: what one side may send, the other side takes, and nothing else."""

    def allowed(self, role, direction):
        """{(peer role or other, port, end)} of one policy."""
        out = set()
        for rule in objects("NetworkPolicy")[f"baton-{role}"]["spec"][direction]:
            for peer in rule.get("from", rule.get("to", [{}])):
                component = peer.get("podSelector", {}).get("matchLabels", {}).get(
                    "app.kubernetes.io/component", "other")
                out.update((component, port["port"], port.get("endPort", port["port"]))
                           for port in rule["ports"])
        return out

    def test_each_edge_is_open_at_both_ends(self):
        for role in ROLES:
            for peer, first, last in self.allowed(role, "egress"):
                if peer != "other":
                    self.assertIn((role, first, last), self.allowed(peer, "ingress"))
            for peer, first, last in self.allowed(role, "ingress"):
                if peer != "other":
                    self.assertIn((role, first, last), self.allowed(peer, "egress"))

    def test_workers_reach_routers_and_the_other_role_only(self):
        control = ports_of("router")["control"]
        transfer = ports_of("decode")["transfer"]
        for role, other in (("prefill", "decode"), ("decode", "prefill")):
            listens = {(other, transfer, transfer)} if role == "decode" else set()
            connects = {(other, transfer, transfer)} if role == "prefill" else set()
            first, last = map(int, next(env["value"] for env in container_of(role)["env"]
                                        if env["name"] == "UCX_TCP_PORT_RANGE").split("-"))
            self.assertEqual(self.allowed(role, "egress"), connects | {
                ("router", control, control), (other, first, last), ("other", 53, 53)})
            self.assertEqual(self.allowed(role, "ingress"), listens | {
                ("other", 8001, 8001), (other, first, last)})
        self.assertEqual(self.allowed("router", "egress"), set())
        self.assertEqual(self.allowed("router", "ingress"), {
            ("other", 8000, 8000), ("prefill", control, control), ("decode", control, control)})


if __name__ == "__main__":
    unittest.main(verbosity=2)
