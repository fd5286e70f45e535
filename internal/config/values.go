// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/kube-eventbridge/kube-eventbridge/internal/builtin"
)

// Size is a number of bytes, written as Kubernetes writes quantities: 256Mi, 1G, 1048576.
type Size int64

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Size) UnmarshalText(text []byte) error {
	q, err := resource.ParseQuantity(string(text))
	if err != nil {
		return fmt.Errorf("%q is not a size; %s", text, sizeHint(string(text)))
	}
	n := q.Value() // rounded, and capped
	if q.CmpInt64(n) != 0 || n < 0 {
		return fmt.Errorf("%q is not a whole, positive number of bytes; %s", text, sizeForm)
	}
	*s = Size(n)
	return nil
}

const sizeForm = "write a number of bytes as Kubernetes does, such as 256Mi, 1G or 1048576"

var sizeLike = regexp.MustCompile(`^([0-9]+) *([kKmMgGtT])(i?)[bB]?$`)

// sizeHint says how text, or else any size, is written.
func sizeHint(text string) string {
	parts := sizeLike.FindStringSubmatch(text)
	if parts == nil {
		return sizeForm
	}
	unit := strings.ToUpper(parts[2])
	if parts[3] != "" {
		return fmt.Sprintf("write %s%si", parts[1], unit)
	}
	return fmt.Sprintf("write %s%si, or %s%s for powers of 1000", parts[1], unit, parts[1],
		strings.Replace(unit, "K", "k", 1))
}

// String returns the size as Kubernetes writes it.
func (s Size) String() string { return resource.NewQuantity(int64(s), resource.BinarySI).String() }

// ResourceName names a resource as kubectl takes it, plural[.version][.group]. A group without a version means the
// version that the API server prefers; a version without a group means the core group; neither, that the API server
// decides which resource of that name it is. Plural "*" means every resource of a group, or of all groups where Group
// is empty, each in the version that the API server prefers.
type ResourceName struct{ Plural, Version, Group string }

var (
	pluralPattern  = regexp.MustCompile(`^[a-z]([-a-z0-9]*[a-z0-9])?$`)
	versionPattern = regexp.MustCompile(`^v[0-9]+((alpha|beta)[0-9]+)?$`)
	groupPattern   = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
)

// UnmarshalText implements encoding.TextUnmarshaler. The version is recognised by its form, so "pods.v1" is version v1
// of the core group.
func (r *ResourceName) UnmarshalText(text []byte) error {
	const valid = "write plural[.version][.group], such as pods, deployments.apps or deployments.v1.apps"
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

// meaning is a name with the plural that it means, also if it is a short name or the singular of a resource that
// Kubernetes has by itself.
type meaning struct {
	ResourceName
	plural string
}

func (r ResourceName) meaning() meaning {
	return meaning{r, cmp.Or(builtin.Plural(r.Plural, r.Group, !r.unresolved()), r.Plural)}
}

// meanings returns those of the names of resources, in their order.
func meanings(of []Resource) []meaning {
	all := make([]meaning, len(of))
	for i := range of {
		all[i] = of[i].Resource.meaning()
	}
	return all
}

// overlaps reports whether both may name the same objects, and neither yields to the other: versions of a resource are
// the same objects.
func (r meaning) overlaps(o meaning) bool {
	if r.Wildcard() || o.Wildcard() {
		return r.ResourceName == o.ResourceName
	}
	return r.plural == o.plural && (r.Group == o.Group || r.unresolved() || o.unresolved())
}

// meets reports whether both may name the same objects.
func (r meaning) meets(o meaning) bool {
	if r.Wildcard() || o.Wildcard() {
		return r.Group == o.Group || r.unresolved() || o.unresolved()
	}
	return r.overlaps(o)
}

// unresolved reports whether only the API server knows the group.
func (r ResourceName) unresolved() bool { return r.Group == "" && r.Version == "" }

// checkName checks the name of a cluster or pipeline: letters, digits and the characters of others, at most 63, a
// letter or digit at both ends.
func checkName(s, others string) error {
	alnum := func(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' }
	if s == "" || len(s) > 63 || !alnum(s[0]) || !alnum(s[len(s)-1]) {
		return errors.New("bad length or end")
	}
	for i := range len(s) {
		if !alnum(s[i]) && strings.IndexByte(others, s[i]) < 0 {
			return fmt.Errorf("bad character %q", s[i])
		}
	}
	return nil
}
