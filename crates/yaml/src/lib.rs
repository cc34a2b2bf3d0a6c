//! YAML as Go's libraries read and write it.
//!
//! Helm and kubectl read YAML with `go.yaml.in/yaml` and `sigs.k8s.io/yaml`; what they accept, what
//! type a scalar gets and how bytes are written back follows those libraries, not YAML 1.2.
