// SPDX-License-Identifier: Apache-2.0

package wiring

import (
	"cmp"

	"github.com/kube-eventbridge/kube-eventbridge/internal/builtin"
	"github.com/kube-eventbridge/kube-eventbridge/internal/config"
	"github.com/kube-eventbridge/kube-eventbridge/internal/rbac"
)

// OwnAccess returns what a process does with objects of its own, which are in one namespace: its Leases, and the
// ConfigMaps of its replicas.
func OwnAccess(c *config.Config, namespace string) (all []rbac.Access) {
	if e := c.LeaderElection; e != nil && len(c.Pipelines) > 0 {
		all = append(all, rbac.Leads(namespace, e.ResourceName)...)
	}
	if e := c.LeaderElection; e != nil && len(c.Replicas) > 0 {
		all = append(all, rbac.Leads(namespace, ReplicasLease(e))...)
	}
	for i := range c.Replicas {
		all = append(all, rbac.Remembers(namespace, nameOf(&c.Replicas[i]))...)
	}
	return all
}

// ReplicasLease returns the name of the Lease by which processes agree who replicates. Publishing and replicating may
// be led by two processes.
func ReplicasLease(e *config.LeaderElection) string { return e.ResourceName + "-replicas" }

// OwnNamespace returns the namespace of what a process has in the cluster: that of its Lease, or its own.
func OwnNamespace(c *config.Config) (string, error) {
	if c.LeaderElection != nil {
		return LeaseNamespace(c)
	}
	return ownNamespace(c.Kubernetes)
}

// WriteAccess returns what a replica does with the objects of one of its resources, in the namespaces that it writes
// to.
func WriteAccess(c *config.Replica, r *config.ReplicaResource) ([]rbac.Access, error) {
	group, plural, err := groupAndPlural(r.Resource)
	if err != nil {
		return nil, err
	}
	known, found := builtin.Find(plural, group, true)
	status := c.Status && (known.Status || !found)
	if len(r.Namespaces) == 0 {
		return rbac.Writes(group, plural, "", status), nil
	}
	var all []rbac.Access
	for _, ns := range r.Namespaces {
		all = append(all, rbac.Writes(group, plural, cmp.Or(c.Into.Namespaces[ns], ns), status)...)
	}
	return all, nil
}
