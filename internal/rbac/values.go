// SPDX-License-Identifier: Apache-2.0

package rbac

// Values are those of the Helm chart that say what a bridge may do. The chart makes the roles and bindings, and adds
// the rules for its Lease.
type Values struct {
	RBAC struct {
		Rules           []Rule            `yaml:"rules"`
		NamespacedRules map[string][]Rule `yaml:"namespacedRules"`
	} `yaml:"rbac"`
}

// ValuesOf returns the rules of roles as values of the chart.
func ValuesOf(objects []Object) (v Values) {
	v.RBAC.NamespacedRules = map[string][]Rule{}
	for _, o := range objects {
		switch o.Kind {
		case "ClusterRole":
			v.RBAC.Rules = append(v.RBAC.Rules, o.Rules...)
		case "Role":
			v.RBAC.NamespacedRules[o.Metadata.Namespace] = append(v.RBAC.NamespacedRules[o.Metadata.Namespace], o.Rules...)
		}
	}
	return v
}
