// SPDX-License-Identifier: Apache-2.0

package campaign

import (
	"fmt"
	"math/rand/v2"

	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/drive"
	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/oracle"
	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/world"
)

// The driver's namespaces.
const (
	selected = "drive-a" // ConfigMaps are watched here with a selector
	whole    = "drive-b"
)

// subject is what the bridge is asked to export in a round, in the words of each who has to know.
type subject struct {
	yaml      string
	streams   []oracle.Stream
	latest    map[oracle.Stream]bool
	resources []oracle.Resource
}

// newSubject returns everything that the driver changes; in every second round Secrets are folded.
func newSubject(random *rand.Rand) subject {
	s := subject{latest: map[oracle.Stream]bool{}}
	for _, k := range drive.Kinds() {
		s.resources = append(s.resources, oracle.Resource{Resource: k.Resource, Namespaced: k.Namespaced})
	}
	stream := func(k drive.Kind, namespace, selector string) oracle.Stream {
		of := oracle.Stream{Cluster: world.Cluster, Resource: k.Resource, Namespace: namespace, LabelSelector: selector}
		s.streams = append(s.streams, of)
		return of
	}
	stream(drive.ConfigMaps, selected, drive.Selector)
	stream(drive.ConfigMaps, whole, "")
	secrets := stream(drive.Secrets, "", "")
	stream(drive.Widgets, "", "")
	stream(drive.ClusterRoles, "", "")
	delivery := "every"
	if random.IntN(2) == 0 {
		delivery = "latest"
		s.latest[secrets] = true
	}
	s.yaml = fmt.Sprintf(`[{resource: configmaps, namespaces: [%s], labelSelector: %q}, {resource: configmaps, namespaces: [%s]}, `+
		`{resource: secrets, delivery: %s}, {resource: %s}, {resource: clusterroles.rbac.authorization.k8s.io}]`,
		selected, drive.Selector, whole, delivery, drive.Widgets.Resource.GroupResource())
	return s
}
