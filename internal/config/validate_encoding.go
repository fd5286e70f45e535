// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/kube-eventbridge/kube-eventbridge/encode/jsonscan"
	"github.com/kube-eventbridge/kube-eventbridge/encode/redact"
	"github.com/kube-eventbridge/kube-eventbridge/internal/builtin"
)

// redact checks the paths of what a pipeline redacts, and warns where that takes what it asks to keep.
func (v *validator) redact(path string, p *Pipeline) {
	texts := 0
	for _, r := range p.Resources {
		if r.hasTexts() {
			texts++
		}
	}
	v.redacted(path+".encoding.redact", p.Encoding.Redact, texts == len(p.Resources))
	v.members(path+".encoding.redact", p.Encoding.Redact, p.Resources...)
	for i, s := range p.Encoding.Redact {
		parsed, err := jsonscan.ParsePath(s)
		if instead := parsed.Beyond(true); err == nil && texts > 0 && texts < len(p.Resources) && instead != "" {
			v.warn(fmt.Sprintf("%s.encoding.redact[%d]", path, i),
				"path %q names nothing in a ConfigMap or a Secret; if it is meant for them write %s", s, instead)
		}
	}
	anything := len(p.Encoding.Redact) > 0
	for i, r := range p.Resources {
		v.redacted(fmt.Sprintf("%s.resources[%d].redact", path, i), r.Redact, r.hasTexts())
		v.members(fmt.Sprintf("%s.resources[%d].redact", path, i), r.Redact, r)
		anything = anything || len(r.Redact) > 0
	}
	for i, part := range p.Encoding.Keep {
		if anything {
			v.warn(fmt.Sprintf("%s.encoding.keep[%d]", path, i),
				"%s may repeat what is redacted, so it is removed all the same where anything is", part)
		}
	}
}

// hasTexts reports whether the resource is known to be one whose data are texts.
func (r *Resource) hasTexts() bool {
	plural := cmp.Or(builtin.Plural(r.Resource.Plural, "", true), r.Resource.Plural)
	return r.Resource.Group == "" && (plural == "configmaps" || plural == "secrets")
}

// redacted checks paths of objects; texts: all of them are ConfigMaps and Secrets.
func (v *validator) redacted(path string, all []string, texts bool) {
	for i, p := range v.paths(path, all) {
		if instead := p.Beyond(texts); instead != "" {
			v.add(fmt.Sprintf("%s[%d]", path, i), "path %q names nothing, as what it leads into is a text; write %s", p, instead)
			continue
		}
		if err := redact.CheckPath(p); !p.IsZero() && err != nil {
			v.add(fmt.Sprintf("%s[%d]", path, i), "%v", err)
		}
	}
}

// members warns of paths that name nothing in any of the resources, as far as it is known what they have.
func (v *validator) members(path string, all []string, resources ...Resource) {
	for _, r := range resources {
		if !r.Resource.builtin() {
			return
		}
	}
	for i, s := range all {
		p, err := jsonscan.ParsePath(s)
		if first := p.First(); err == nil && first != "" && !builtin.Member(first) {
			of := "any of its resources"
			if len(resources) == 1 {
				of = resources[0].Resource.String()
			}
			v.warn(fmt.Sprintf("%s[%d]", path, i),
				"%s is no member of %s, so the path names nothing; paths begin at the object, such as data.password", first, of)
		}
	}
}

// builtin reports whether it is known, by its plural or a short name, as one that API servers have by themselves.
func (r ResourceName) builtin() bool {
	inGroup := !r.unresolved()
	_, found := builtin.Find(r.Plural, r.Group, inGroup)
	return found || builtin.Plural(r.Plural, r.Group, inGroup) != ""
}

// paths parses a list of paths. What is none is the zero Path, and reported.
func (v *validator) paths(path string, all []string) []jsonscan.Path {
	parsed, seen := make([]jsonscan.Path, len(all)), map[string]bool{}
	for i, s := range all {
		at := fmt.Sprintf("%s[%d]", path, i)
		p, err := jsonscan.ParsePath(s)
		switch {
		case err != nil:
			v.add(at, "%v", err)
		case seen[p.Key()]:
			v.add(at, "%q is there twice; keep one", s)
		default:
			parsed[i], seen[p.Key()] = p, true
		}
	}
	return parsed
}

// annotations checks the names of annotations of Secrets.
func (v *validator) annotations(path string, s *Secrets) {
	if len(s.Annotations) > 0 && s.Values {
		v.add(path, "is for values that are not published, and values is true; remove one")
		return
	}
	for i, name := range s.Annotations {
		at := fmt.Sprintf("%s[%d]", path, i)
		switch err := redact.CheckAnnotation(name); {
		case len(validation.IsQualifiedName(strings.ToLower(name))) > 0:
			v.add(at, "%q is not the name of an annotation; write one such as example.com/team", name)
		case err != nil:
			v.add(at, "%v", err)
		case slices.Contains(s.Annotations[:i], name):
			v.add(at, "%q is there twice; keep one", name)
		}
	}
}

// hashes checks where the key of the hashes of Secrets' values is.
func (v *validator) hashes(path string, s *Secrets) {
	h, at := s.Hashes, path+".hashes"
	switch {
	case h == nil:
	case s.Values:
		v.add(at, "is for values that are not published, and values is true; remove one")
	case h.KeyFile != "" && h.KeyEnv != "":
		v.add(at, "has keyFile and keyEnv; keep one")
	case h.KeyFile == "" && h.KeyEnv == "":
		v.add(at, "has no key; give keyFile or keyEnv, with %d random bytes or more", redact.MinHashKey)
	case h.KeyEnv != "" && !envPattern.MatchString(h.KeyEnv):
		v.add(at+".keyEnv", "is not the name of an environment variable; write a name such as HASH_KEY, not the value")
	}
}
