// SPDX-License-Identifier: Apache-2.0

// Package deploy tests the manifests in the directory deploy: they are rendered by kustomize's and Helm's own
// libraries, a real API server takes each object under the restricted Pod Security Standard, and the bridge runs with
// the configuration, the arguments and the permissions that they give it.
package deploy
