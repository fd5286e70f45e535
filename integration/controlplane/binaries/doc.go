// SPDX-License-Identifier: Apache-2.0

// Package binaries pins the versions of kube-apiserver and etcd that the
// integration tests run against. Nothing imports it.
package binaries
