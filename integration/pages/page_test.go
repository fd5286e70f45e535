// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

const root = "../.."

// block is a fenced block of a page.
type block struct {
	language, text string
	stop           []string // words of the commands of terminals that end before it
	skipped        bool
}

var fenced = regexp.MustCompile("(?ms)^((?:<!-- (?:not run|stop): [^\n]* -->\n)*)```([a-z]*)\n(.*?)^```$")

// remark says how a block is run.
var remark = regexp.MustCompile("<!-- (not run|stop): (.*) -->")

// blocks returns those of a page.
func blocks(t *testing.T, page string) (all []block) {
	t.Helper()
	text := must.Get(os.ReadFile(filepath.Join(root, page)))(t)
	for _, m := range fenced.FindAllStringSubmatch(string(text), -1) {
		b := block{language: m[2], text: m[3]}
		for _, r := range remark.FindAllStringSubmatch(m[1], -1) {
			if r[1] == "stop" {
				b.stop = append(b.stop, r[2])
			}
			b.skipped = b.skipped || r[1] == "not run"
		}
		all = append(all, b)
	}
	return all
}

var fileName = regexp.MustCompile(`^# (\S+\.yaml)\n`)

// file returns the name of the file that a block is, or "".
func (b *block) file() string {
	if m := fileName.FindStringSubmatch(b.text); m != nil && b.language == "yaml" && !b.skipped {
		return m[1]
	}
	return ""
}

var (
	uid     = regexp.MustCompile(`[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
	manager = regexp.MustCompile(`(?:-|kubectl-[a-z]+)\s{2,}`) // within a second of another write there is none
	varying = regexp.MustCompile(uid.String() + "|" + manager.String() + `|(?:\d{4}-\d\d-\d\dT)?\d\d:\d\d:\d\d\.\d{3}Z?` +
		`|\b\d{2,}\b|(?:at most|less than) \d+s|…|\s+`)
)

// pattern returns what fits a line of a page: times, versions and uids may differ, and so may blanks.
func pattern(line string) *regexp.Regexp {
	var p strings.Builder
	end := 0
	for _, m := range varying.FindAllStringIndex(line, -1) {
		p.WriteString(regexp.QuoteMeta(line[end:m[0]]))
		end = m[1]
		switch word := line[m[0]:m[1]]; {
		case word == "…":
			p.WriteString(".*")
		case strings.TrimSpace(word) == "":
			p.WriteString(`\s+`)
		case uid.MatchString(word):
			p.WriteString(uid.String())
		case manager.MatchString(word):
			p.WriteString(manager.String())
		case strings.HasSuffix(word, "s"):
			p.WriteString(`(?:at most|less than) \d+s`)
		default:
			p.WriteString(`[\d:.TZ-]+`)
		}
	}
	p.WriteString(regexp.QuoteMeta(line[end:]))
	return regexp.MustCompile(`^\s*` + p.String() + `\s*$`)
}

// missing returns the first line of want that is not in printed behind those before it, or "".
func missing(want, printed string) string {
	lines := strings.Split(printed, "\n")
	for line := range strings.Lines(want) {
		line = strings.TrimSpace(line)
		fits, at := pattern(line), 0
		for at < len(lines) && !fits.MatchString(lines[at]) {
			at++
		}
		if at == len(lines) {
			return line
		}
		lines = lines[at+1:]
	}
	return ""
}

func TestMissing_takes_other_times_and_versions_and_no_other_text(t *testing.T) {
	const want = "TIME  OP\n00:07:16.012  added  default/web  95  by …\n00:07:17.076  updated  1→3\n"
	const printed = "TIME          OP\n13:10:00.000  added  default/web       173   by kubectl\nmore\n" +
		"13:10:00.001  updated  1→3\n"
	assert.Empty(t, missing(want, printed))
	assert.Equal(t, "00:07:17.076  updated  1→3", missing(want, strings.Replace(printed, "1→3", "1→4", 1)))
	assert.Equal(t, "00:07:16.012  added  default/web  95  by …",
		missing(want, strings.Replace(printed, "web", "shop", 1)))
	assert.Empty(t, missing("2026-11-28T13:16:58.305Z  69  -    1→3",
		"2027-01-02T03:04:05.678Z  70  kubectl-set   1→3"))
	assert.Empty(t, missing("existed at most 1s, last known version 71", "existed less than 2s, last known version 123"))
}

// link is one to a file of the repository, or to a heading of one.
var link = regexp.MustCompile(`\]\(([^):\s]*?)(?:#([^)\s]*))?\)`)

func TestPages_link_to_what_is_there(t *testing.T) {
	t.Parallel()
	var all []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md"} {
		all = append(all, must.Get(filepath.Glob(filepath.Join(root, pattern)))(t)...)
	}
	require.Greater(t, len(all), 30)
	for _, page := range all {
		text := must.Get(os.ReadFile(page))(t)
		for _, l := range link.FindAllStringSubmatch(fenced.ReplaceAllString(string(text), ""), -1) {
			target := page
			if l[1] != "" {
				target = filepath.Join(filepath.Dir(page), l[1])
			}
			if info, err := os.Stat(target); err == nil && info.IsDir() {
				continue
			}
			b, err := os.ReadFile(target)
			assert.NoError(t, err, "%s links to %s", page, l[1])
			if l[2] != "" {
				assert.Contains(t, anchors(string(b)), l[2], "%s links to %s#%s, which is no heading there", page, l[1], l[2])
			}
		}
	}
}

var (
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	dropped = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// anchors returns what the headings of a page can be linked to by, as GitHub makes it.
func anchors(text string) (all []string) {
	seen := map[string]int{}
	for _, m := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
		a := strings.ReplaceAll(strings.ToLower(dropped.ReplaceAllString(m[1], "")), " ", "-")
		if n := seen[a]; n > 0 {
			all = append(all, fmt.Sprintf("%s-%d", a, n))
		} else {
			all = append(all, a)
		}
		seen[a]++
	}
	return all
}
