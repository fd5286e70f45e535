// SPDX-License-Identifier: Apache-2.0

package jsonscan

import (
	"fmt"
	"strconv"
	"strings"
)

// Path names values within an object: names with dots between, ["a name"] where a name has other characters, or nothing
// but digits, and [*] for every element of a list or every member of an object.
//
// A name that meets a list is looked for in each of its elements, so that spec.containers.image is
// spec.containers[*].image. What is not there is not named. The zero Path is none.
type Path struct {
	text  string
	steps []Step
}

// Step is a name, or every member or element.
type Step struct {
	Name  string
	Every bool
}

// maxSteps is how deep a path goes at most.
const maxSteps = 64

// ParsePath parses a path. It refuses what begins with object, oldObject or event, as expressions and the data of
// changes do: a member of such a name is written ["object"]. Its errors name the path, the character that is wrong,
// counted from 1, and after a semicolon what is valid.
func ParsePath(s string) (Path, error) {
	p := Path{text: s}
	rest := strings.TrimPrefix(s, ".") // as kubectl begins them
	if before := notOfObject(rest); before != "" {
		return Path{}, fmt.Errorf("path %q: it begins with %s; paths begin at the object, so leave that out, as in "+
			"spec.containers[*].image", s, before)
	}
	for first := true; rest != "" || first; first = false {
		var wrong string
		at := rest
		if !first && rest[0] == '.' {
			at = rest[1:]
		}
		switch {
		case strings.HasPrefix(rest, "["):
			rest, wrong = p.bracket(rest)
		case first || rest[0] == '.':
			rest, wrong = p.plain(at)
		default:
			wrong = "a name does not go on like this"
		}
		if wrong == "" && len(p.steps) > maxSteps {
			wrong = fmt.Sprintf("it is deeper than %d steps", maxSteps)
		}
		if wrong != "" {
			return Path{},
				fmt.Errorf("path %q: %s at character %d; write names with dots between, [\"a name\"] around one with other "+
					"characters than letters, digits, _ and -, and [*] for every element, as in spec.containers[*].env[*].value", s,
					wrong,
					1+len([]rune(s[:len(s)-len(at)])))
		}
	}
	return p, nil
}

// MustParsePath is ParsePath of what is known to be a path; it panics where it is none.
func MustParsePath(s string) Path {
	p, err := ParsePath(s)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return p
}

// notOfObject returns that with which a path begins that is not meant from the object on.
func notOfObject(s string) string {
	if strings.HasPrefix(s, "$") {
		return "$"
	}
	for _, name := range []string{"object", "oldObject", "event"} {
		if rest, begins := strings.CutPrefix(s, name); begins && (rest == "" || !nameByte(rest[0])) {
			return name
		}
	}
	return ""
}

// plain reads a name without quotes.
func (p *Path) plain(s string) (rest, wrong string) {
	n := 0
	for n < len(s) && nameByte(s[n]) {
		n++
	}
	switch {
	case n == 0 && s == "":
		return "", "a name is missing"
	case n == 0:
		return "", "a name does not begin like this"
	case strings.Trim(s[:n], "0123456789") == "":
		return "",
			fmt.Sprintf("%s is no place in a list: write [*] for all elements, or [\"%[1]s\"] for a member of that name,", s[:n])
	}
	p.steps = append(p.steps, Step{Name: s[:n]})
	return s[n:], ""
}

func nameByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '$'
}

// bracket reads ["a name"], ['a name'] or [*].
func (p *Path) bracket(s string) (rest, wrong string) {
	if rest, every := strings.CutPrefix(s, "[*]"); every {
		p.steps = append(p.steps, Step{Every: true})
		return rest, ""
	}
	if len(s) < 2 || s[1] != '"' && s[1] != '\'' {
		return "", "a bracket has neither a name in quotes nor *"
	}
	name, rest, closed := strings.Cut(s[2:], s[1:2]+"]")
	switch {
	case !closed:
		return "", "a bracket is not closed"
	case name == "":
		return "", "a name is empty"
	}
	p.steps = append(p.steps, Step{Name: name})
	return rest, ""
}

// String returns the path as it was given.
func (p Path) String() string { return p.text }

// Steps returns the steps from the object on.
func (p Path) Steps() []Step { return p.steps }

// Key returns a text that two paths have in common if, and only if, they name the same in every object, whatever their
// notation.
func (p Path) Key() string {
	var key strings.Builder
	for _, s := range p.steps {
		if s.Every {
			key.WriteByte('*')
			continue
		}
		key.WriteString(strconv.Quote(s.Name))
	}
	return key.String()
}

// IsZero reports whether it is the zero Path.
func (p Path) IsZero() bool { return p.steps == nil }

// First returns the member of the object with which it begins; empty where that is every one.
func (p Path) First() string {
	if p.IsZero() {
		return ""
	}
	return p.steps[0].Name
}

// Within reports whether what q names is within what p names, or the same, in every object that has both.
func (p Path) Within(q Path) bool {
	if len(q.steps) > len(p.steps) {
		return false
	}
	for i, s := range q.steps {
		if !s.Every && s != p.steps[i] {
			return false
		}
	}
	return true
}

// Beyond returns how p has to be written where it leads further than there is anything: the members of
// metadata.annotations and metadata.labels, and of a ConfigMap or a Secret those of data, binaryData and stringData
// too, are texts, whose names may have dots. It returns nothing for another path.
func (p Path) Beyond(configMap bool) (instead string) {
	n := 0
	switch {
	case len(p.steps) > 2 && p.steps[0].Name == "metadata" &&
		(p.steps[1].Name == "annotations" || p.steps[1].Name == "labels"):
		n = 2
	case len(p.steps) > 1 && configMap && (p.steps[0].Name == "data" || p.steps[0].Name == "binaryData" ||
		p.steps[0].Name == "stringData"):
		n = 1
	}
	if n == 0 || len(p.steps) == n+1 {
		return ""
	}
	var names []string
	for i, s := range p.steps {
		if i >= n && s.Every {
			return strings.Join(names[:n], ".") + "[*]"
		}
		names = append(names, s.Name)
	}
	return fmt.Sprintf("%s[%q]", strings.Join(names[:n], "."), strings.Join(names[n:], "."))
}
