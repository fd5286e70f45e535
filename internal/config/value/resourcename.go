// SPDX-License-Identifier: Apache-2.0

package value

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"

	"github.com/kube-eventbridge/kube-eventbridge/internal/builtin"
)

// ResourceName names a resource as kubectl takes it, plural[.version][.group]. A group without a version means the
// version that the API server prefers; a version without a group means the core group; neither, that the API server
// decides which resource of that name it is. Plural "*" means every resource of a group, or of all groups where Group
// is empty, each in the version that the API server prefers.
type ResourceName struct{ Plural, Version, Group string }

// ResourceForm says how a resource is named.
const ResourceForm = "write plural[.version][.group], such as pods, deployments.apps or deployments.v1.apps"

var (
	pluralPattern  = regexp.MustCompile(`^[a-z]([-a-z0-9]*[a-z0-9])?$`)
	versionPattern = regexp.MustCompile(`^v[0-9]+((alpha|beta)[0-9]+)?$`)
	groupPattern   = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
)

// UnmarshalText implements encoding.TextUnmarshaler. The version is recognised by its form, so "pods.v1" is version v1
// of the core group.
func (r *ResourceName) UnmarshalText(text []byte) error {
	const valid = ResourceForm
	s := string(text)
	if strings.Contains(s, "*") {
		return r.unmarshalWildcard(s)
	}
	if strings.Contains(s, "/") {
		return fmt.Errorf("%q is a subresource or a path, which cannot be watched by that name; %s", s, valid)
	}
	n := ResourceName{Plural: s}
	if plural, rest, found := strings.Cut(s, "."); found {
		n.Plural, n.Group = plural, rest
		if version, group, _ := strings.Cut(rest, "."); versionPattern.MatchString(version) {
			n.Version, n.Group = version, group
		}
		if n.Group != "" && !groupPattern.MatchString(n.Group) || n.Group == "" && n.Version == "" {
			return fmt.Errorf("%q ends with %q, which is not a group; %s", s, n.Group, valid)
		}
		if meant, swapped := n.unswapped(); swapped {
			return fmt.Errorf("%q has its version at the end, did you mean %s?; %s", s, meant, valid)
		}
	}
	if !pluralPattern.MatchString(n.Plural) || len(n.Plural) > 63 {
		return fmt.Errorf("%q does not begin with a resource's plural name in lower case; %s", s, valid)
	}
	*r = n
	return nil
}

func (r *ResourceName) unmarshalWildcard(s string) error {
	const valid = `write "*.example.com" for every resource of a group, or "*" for those of all groups`
	group, within := "", s == "*"
	if !within {
		group, within = strings.CutPrefix(s, "*.")
	}
	version, _, _ := strings.Cut(group, ".")
	switch {
	case s == "*":
	case !within || strings.Contains(group, "*"):
		return fmt.Errorf("%q has * elsewhere than as all of its plural; %s", s, valid)
	case versionPattern.MatchString(version):
		return fmt.Errorf("%q has a version, and each resource is read in the one that the API server prefers; %s", s, valid)
	case !groupPattern.MatchString(group):
		return fmt.Errorf("%q ends with %q, which is not a group; %s", s, group, valid)
	}
	*r = ResourceName{Plural: "*", Group: group}
	return nil
}

// Wildcard reports whether it names every resource of a group, or of all.
func (r ResourceName) Wildcard() bool { return r.Plural == "*" }

// Beyond reports whether r, a wildcard, names nothing that o does, whatever a cluster has.
func (r ResourceName) Beyond(o ResourceName) bool {
	return r.Group != "" && (o.Group != "" || o.Version != "") && o.Group != r.Group
}

// unswapped returns what was meant where the version stands after the group.
func (r ResourceName) unswapped() (meant ResourceName, swapped bool) {
	i := strings.LastIndexByte(r.Group, '.')
	if r.Version != "" || i < 0 || !versionPattern.MatchString(r.Group[i+1:]) {
		return r, false
	}
	return ResourceName{Plural: r.Plural, Version: r.Group[i+1:], Group: r.Group[:i]}, true
}

// String returns the name as it is written in the file.
func (r ResourceName) String() string {
	s := r.Plural
	for _, part := range []string{r.Version, r.Group} {
		if part != "" {
			s += "." + part
		}
	}
	return s
}

// Arg returns the name as Kubernetes' schema.ParseResourceArg takes it: there the core group after a version is a
// trailing dot.
func (r ResourceName) Arg() string {
	if r.Version != "" && r.Group == "" {
		return r.String() + "."
	}
	return r.String()
}

// Meaning is a name with the plural that it means, also if it is a short name or the singular of a resource that
// Kubernetes has by itself.
type Meaning struct {
	ResourceName
	FullPlural string
}

// Meaning returns what is known of the name without a cluster.
func (r ResourceName) Meaning() Meaning {
	return Meaning{r, cmp.Or(builtin.Plural(r.Plural, r.Group, !r.Unresolved()), r.Plural)}
}

// Overlaps reports whether both may name the same objects, and neither yields to the other: versions of a resource are
// the same objects.
func (r Meaning) Overlaps(o Meaning) bool {
	if r.Wildcard() || o.Wildcard() {
		return r.ResourceName == o.ResourceName
	}
	return r.FullPlural == o.FullPlural && (r.Group == o.Group || r.Unresolved() || o.Unresolved())
}

// Meets reports whether both may name the same objects.
func (r Meaning) Meets(o Meaning) bool {
	if r.Wildcard() || o.Wildcard() {
		return r.Group == o.Group || r.Unresolved() || o.Unresolved()
	}
	return r.Overlaps(o)
}

// Unresolved reports whether only the API server knows the group.
func (r ResourceName) Unresolved() bool { return r.Group == "" && r.Version == "" }

// Builtin reports whether it is known, by its plural or a short name, as one that API servers have by themselves.
func (r ResourceName) Builtin() bool {
	_, found := builtin.Find(r.Plural, r.Group, !r.Unresolved())
	return found || builtin.Plural(r.Plural, r.Group, !r.Unresolved()) != ""
}

// Known returns what is known of it, whatever the cluster.
func (r ResourceName) Known() (builtin.Known, bool) {
	return builtin.Find(r.Meaning().FullPlural, r.Group, !r.Unresolved())
}
