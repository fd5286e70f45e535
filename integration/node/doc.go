// SPDX-License-Identifier: Apache-2.0

// Package node tests the chart and the image on a cluster that has a node: kubelet, containerd, kube-proxy, scheduler
// and controllers run the Pods that helm install asks for.
//
// Kubernetes is built from the versions that package controlplane pins; containerd, runc, the CNI plugins, iptables and
// ip are those of the system (on Debian containerd, runc, containernetworking-plugins, iptables and iproute2). All of
// it, the tests included, runs in a world of its own: the test program starts itself again as the first process of new
// namespaces of processes, mounts and network, where /run, /var/lib and /var/log are empty file systems in memory. So
// nothing is left of it when it ends, however it ends, but empty cgroups, which the next run removes, and, where
// cgroups are of version 2, the controllers that their root hands on. That takes root.
//
// Where it cannot run the tests are skipped, and say why; if CI is set they fail, unless KUBE_EVENTBRIDGE_NO_NODE says
// why it cannot.
package node
