// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/testtier"
)

const secret = "hX7pQ2mNv9LcT4rWz8KbY1sD"

// damages break a log that is right. They return false where this log has no place for them.
var damages = []struct {
	name    string
	promise Promise
	do      func(d *damaged) bool
}{
	{"drop the last entry of an object that lives", P1, func(d *damaged) bool {
		return d.drop(func(i int) bool { return d.last(i) && d.op(i) != Deleted })
	}},
	{"drop the last entry of an object that is gone", P1, func(d *damaged) bool {
		return d.drop(func(i int) bool {
			return d.last(i) && d.op(i) == Deleted && d.before(i) >= 0 && d.op(d.before(i)) != Deleted
		})
	}},
	{"drop a deletion", P2, func(d *damaged) bool {
		return d.drop(func(i int) bool { return d.op(i) == Deleted && d.before(i) >= 0 && d.op(d.before(i)) != Deleted })
	}},
	{"drop a deletion that a list found", P2, func(d *damaged) bool {
		return d.drop(func(i int) bool {
			return d.op(i) == Deleted && d.log[i].Reason == "relist" && d.before(i) >= 0 && d.op(d.before(i)) != Deleted
		})
	}},
	{"let another object take a name before the deletion", P2, func(d *damaged) bool {
		return d.swap(func(i, next int) bool {
			return d.op(i) == Deleted && d.op(next) == Added && d.log[i].UID != d.log[next].UID
		})
	}},
	{"drop an update that a newer one follows", P3, func(d *damaged) bool {
		return d.drop(func(i int) bool { return d.log[i].Reason == "watch" && d.op(i) == Updated && !d.last(i) })
	}},
	{"call an addition an update", P3, func(d *damaged) bool { return d.word(Added, Updated) }},
	{"call an update an addition", P3, func(d *damaged) bool { return d.word(Updated, Added) }},
	{"fold in a stream of every state", P3, func(d *damaged) bool {
		return d.change(func(i int) bool { return d.op(i) == Updated }, func(e *Entry) { e.SampledRate = 2 })
	}},
	{"swap two states", P4, func(d *damaged) bool {
		return d.swap(func(i, next int) bool {
			return d.op(i) != Deleted && d.op(next) != Deleted && d.log[i].History == d.log[next].History
		})
	}},
	{"tell a state that never was", P4, func(d *damaged) bool {
		return d.change(func(i int) bool { return d.op(i) == Updated }, func(e *Entry) {
			e.ResourceVersion = "99999"
			e.ID = e.UID + ".99999" + strings.TrimLeft(e.ID[len(e.UID)+1:], "0123456789")
		})
	}},
	{"tell of an object that never was", P4, func(d *damaged) bool {
		return d.change(func(i int) bool { return d.op(i) == Added }, func(e *Entry) { e.Name = "nobody" })
	}},
	{"repeat an entry", P5, func(d *damaged) bool { return d.repeat(func(*Entry) {}) }},
	{"repeat an event under another message id", P5, func(d *damaged) bool { return d.repeat(func(e *Entry) { e.MsgID += "x" }) }},
	{"repeat a state under another id", P5, func(d *damaged) bool {
		return d.repeat(func(e *Entry) { e.MsgID += ".r1"; e.ID += ".r1" })
	}},
	{"give an event another id", P5, func(d *damaged) bool {
		return d.change(func(i int) bool { return d.op(i) != "" }, func(e *Entry) { e.ID = "x" + e.ID })
	}},
	{"leave the history out of an id", P5, func(d *damaged) bool {
		return d.change(func(i int) bool { return d.op(i) != "" && d.log[i].History > 0 }, func(e *Entry) { e.ID, _, _ = strings.Cut(e.ID, ".h") })
	}},
	{"tell too many changes in one event", P3, func(d *damaged) bool {
		d.options.Latest = map[Stream]bool{plain: true, selective: true}
		return d.change(func(i int) bool { return d.op(i) == Updated }, func(e *Entry) { e.SampledRate = 99 })
	}},
	{"repair a log that was not taken away", P3, func(d *damaged) bool {
		return d.change(func(i int) bool { return d.op(i) == Updated }, func(e *Entry) { e.Reason = "repair"; e.ID += ".r1" })
	}},
	{"give a deletion that a list found an older version", P4, func(d *damaged) bool {
		return d.change(func(i int) bool { return d.older(i) != nil }, func(e *Entry) {
			version := d.older(int(e.Sequence) - 1).ResourceVersion //nolint:gosec // few
			e.ID = strings.Replace(e.ID, "."+e.ResourceVersion+".", "."+version+".", 1)
			e.Data = bytes.Replace(e.Data, []byte(`"`+e.ResourceVersion+`"`), []byte(`"`+version+`"`), 1)
			e.ResourceVersion = version
		})
	}},
	{"change what an object contains", P4, func(d *damaged) bool {
		return d.change(func(i int) bool { return d.log[i].Body != "" }, func(e *Entry) { e.Body = "another" })
	}},
	{"leave all of an object out but its identity", P4, func(d *damaged) bool {
		return d.change(func(i int) bool { return d.log[i].Body != "" && d.op(i) != Deleted }, func(e *Entry) { e.Body = "" })
	}},
	{"give an object another kind", P4, func(d *damaged) bool {
		return d.change(func(i int) bool { return d.op(i) != "" }, func(e *Entry) {
			e.Data = bytes.Replace(e.Data, []byte(`"kind":"`), []byte(`"kind":"Other`), 1)
		})
	}},
	{"give an object another apiVersion", P4, func(d *damaged) bool {
		return d.change(func(i int) bool { return d.op(i) != "" }, func(e *Entry) {
			e.Data = bytes.Replace(e.Data, []byte(`v1","kind`), []byte(`v2","kind`), 1)
		})
	}},
	{"put an entry under another pipeline", P4, func(d *damaged) bool {
		d.options.Pipeline = "p"
		for i := range d.log {
			d.log[i].Pipeline = "p"
		}
		return d.change(func(int) bool { return true }, func(e *Entry) { e.Pipeline = "q" })
	}},
	{"give an entry an unknown type", P4, func(d *damaged) bool {
		return d.change(func(int) bool { return true }, func(e *Entry) { e.Type = "com.example.changed" })
	}},
	{"put an entry under another subject of NATS", P4, func(d *damaged) bool {
		return d.change(func(int) bool { return true }, func(e *Entry) { e.Address = "k8s.test.core.pods.ns.a" })
	}},
	{"give an entry another partitionkey", P4, func(d *damaged) bool {
		return d.change(func(int) bool { return true }, func(e *Entry) { e.PartitionKey += "x" })
	}},
	{"repeat a marker", P5, func(d *damaged) bool {
		return d.repeatWhere(func(i int) bool { return d.op(i) == "" }, func(*Entry) {})
	}},
	{"announce a gap without a cause", P6, func(d *damaged) bool {
		d.options.Gaps = NoGaps
		return slices.ContainsFunc(d.log, func(e Entry) bool { return e.Type == typeGap })
	}},
	{"let a gap begin before the first list", P6, func(d *damaged) bool {
		return d.change(func(i int) bool { return d.log[i].Type == typeGap && newMark(&d.log[i]).history == 0 }, func(e *Entry) { d.moveFrom(e, "99") })
	}},
	{"let a gap begin at 0", P6, func(d *damaged) bool {
		return d.change(func(i int) bool { return d.log[i].Type == typeGap && newMark(&d.log[i]).history == 0 }, func(e *Entry) { d.moveFrom(e, "0") })
	}},
	{"remove the marker of a gap that hides something", P6, func(d *damaged) bool { return d.drop(d.hides) }},
	{"remove the marker of a gap whose list found something", P6, func(d *damaged) bool {
		return d.drop(func(i int) bool { return d.log[i].Type == typeGap && d.relists(i) })
	}},
	{"remove the marker behind what was recovered", P6, func(d *damaged) bool {
		return d.drop(func(i int) bool {
			after := slices.ContainsFunc(d.log[i+1:], func(e Entry) bool { return e.Type == typeGap && e.Source == d.log[i].Source })
			return d.log[i].Type == typeGap && !after && i > 0 && d.log[i-1].Reason == "recovered"
		})
	}},
	{"begin a history without a gap", P6, func(d *damaged) bool {
		return d.drop(func(i int) bool {
			return d.log[i].Type == typeGap && strings.Contains(d.log[i].ID, ".h") && newMark(&d.log[i-1]).history == 0 && d.relists(i)
		})
	}},
	{"let a gap begin later", P6, func(d *damaged) bool {
		return d.change(func(i int) bool { return d.hides(i) && newMark(&d.log[i]).history == 0 }, func(e *Entry) { d.moveFrom(e, e.ResourceVersion) })
	}},
	{"let a gap end before it begins", P6, func(d *damaged) bool {
		return d.change(func(i int) bool { return d.log[i].Type == typeGap }, func(e *Entry) { d.moveFrom(e, "999999999") })
	}},
	{"let a gap hide versions that never were", P6, func(d *damaged) bool {
		return d.change(func(i int) bool { return d.log[i].Type == typeGap }, func(e *Entry) {
			to := e.ResourceVersion
			e.ResourceVersion = "999999999"
			e.ID = strings.Replace(e.ID, "-"+to, "-999999999", 1)
			e.Data = bytes.Replace(e.Data, []byte(`"to":"`+to), []byte(`"to":"999999999`), 1)
		})
	}},
	{"leave out of a marker when it was recorded", P6, func(d *damaged) bool {
		return d.change(func(i int) bool { return d.op(i) == "" }, func(e *Entry) { e.Recorded = time.Time{} })
	}},
	{"garble a gap's data", P6, func(d *damaged) bool {
		return d.change(func(i int) bool { return d.log[i].Type == typeGap }, func(e *Entry) { e.Data = []byte("{") })
	}},
	{"put a gap behind what its list found", P6, func(d *damaged) bool {
		for i := range len(d.log) - 1 {
			if d.log[i].Type == typeGap && d.log[i+1].Reason == "relist" {
				d.log[i].Sequence, d.log[i+1].Sequence = d.log[i+1].Sequence, d.log[i].Sequence
				return true
			}
		}
		return false
	}},
	{"buffer more than the limit", P7, func(d *damaged) bool {
		d.options.BufferLimit, d.options.Samples = 100, []Sample{{BufferedBytes: 100}, {BufferedBytes: 101}}
		return true
	}},
	{"take more memory than the limit", P7, func(d *damaged) bool {
		d.options.RSSLimit, d.options.Samples = 100, []Sample{{RSS: 100}, {RSS: 101}}
		return true
	}},
	{"show a secret in data", P8, func(d *damaged) bool { d.log[0].Data = []byte(`{"x":"` + secret + `"}`); return true }},
	{"show a secret in a header's value", P8, func(d *damaged) bool {
		d.log[0].Headers = map[string][]string{"x": {base64.StdEncoding.EncodeToString([]byte("a" + secret + "b"))}}
		return true
	}},
	{"show a secret in a header's name", P8, func(d *damaged) bool {
		d.log[0].Headers = map[string][]string{"x-" + secret: nil}
		return true
	}},
	{"show a secret in a text", P8, func(d *damaged) bool {
		d.options.Texts = map[string][]byte{"stderr": []byte("begin " + secret[3:15] + " end")}
		return true
	}},
}

// damaged is a log that is about to be broken.
type damaged struct {
	t       *rapid.T
	truth   *Truth
	log     []Entry
	options Options
	done    bool // the log had a place for it
}

func (d *damaged) op(i int) Op {
	op, _ := d.log[i].operation()
	return op
}

func (d *damaged) same(i, j int) bool {
	return d.op(i) != "" && d.op(j) != "" && d.log[i].Source == d.log[j].Source && d.log[i].key() == d.log[j].key()
}

func (d *damaged) before(i int) int {
	for j := i - 1; j >= 0; j-- {
		if d.same(i, j) {
			return j
		}
	}
	return -1
}

// older is the entry before the last one of an object that a list found missing, if that has the same owner. Where etcd
// was restored its version may also be that of a deletion.
func (d *damaged) older(i int) *Entry {
	last := d.before(i)
	if len(d.truth.Histories) > 1 || d.op(i) != Deleted || d.log[i].Reason != "relist" || last < 0 || d.before(last) < 0 {
		return nil
	}
	if e := &d.log[d.before(last)]; e.UID == d.log[i].UID && d.log[last].UID == e.UID && d.op(last) != Deleted && d.op(d.before(last)) != Deleted {
		return e
	}
	return nil
}

func (d *damaged) last(i int) bool {
	for j := i + 1; j < len(d.log); j++ {
		if d.same(i, j) {
			return false
		}
	}
	return d.op(i) != ""
}

// hides: a gap that something is missing in.
func (d *damaged) hides(i int) bool {
	return d.log[i].Type == typeGap && slices.ContainsFunc(Judge(d.truth, d.log, Options{}).Gaps, func(g GapFigure) bool {
		return g.Sequence == d.log[i].Sequence && g.Hidden > 0
	})
}

func (d *damaged) relists(i int) bool {
	return i+1 < len(d.log) && d.log[i+1].Reason == "relist" && d.log[i+1].Source == d.log[i].Source
}

func (d *damaged) pick(fits func(int) bool) int {
	var places []int
	for i := range d.log {
		if fits(i) {
			places = append(places, i)
		}
	}
	if len(places) == 0 {
		return -1
	}
	return rapid.SampledFrom(places).Draw(d.t, "place")
}

// at does something to one of the entries that fit, and reports whether there is one.
func (d *damaged) at(fits func(int) bool, do func(i int)) bool {
	i := d.pick(fits)
	if i >= 0 {
		do(i)
	}
	return i >= 0
}

func (d *damaged) change(fits func(int) bool, do func(*Entry)) bool {
	return d.at(fits, func(i int) { do(&d.log[i]) })
}

func (d *damaged) drop(fits func(int) bool) bool {
	return d.at(fits, func(i int) { d.log = slices.Delete(d.log, i, i+1) })
}

func (d *damaged) swap(fits func(i, next int) bool) bool {
	next := d.pick(func(next int) bool { i := d.before(next); return i >= 0 && fits(i, next) })
	if next >= 0 {
		i := d.before(next)
		d.log[i].Sequence, d.log[next].Sequence = d.log[next].Sequence, d.log[i].Sequence
	}
	return next >= 0
}

func (d *damaged) word(from, to Op) bool {
	return d.change(func(i int) bool { return d.op(i) == from && d.log[i].Reason == "watch" }, func(e *Entry) { e.Type = strings.Replace(e.Type, string(from), string(to), 1) })
}

func (d *damaged) repeat(do func(*Entry)) bool {
	return d.repeatWhere(func(i int) bool { return d.op(i) != "" }, do)
}

func (d *damaged) repeatWhere(fits func(int) bool, do func(*Entry)) bool {
	return d.at(fits, func(i int) {
		e := d.log[i]
		do(&e)
		d.log = slices.Insert(d.log, i+1, e)
		for i := range d.log {
			d.log[i].Sequence = uint64(i + 1)
		}
	})
}

func (d *damaged) moveFrom(e *Entry, to string) {
	m := newMark(e)
	_ = m.read(plain)
	e.ID = strings.Replace(e.ID, "."+m.body.From+"-", "."+to+"-", 1)
	e.Data = bytes.Replace(e.Data, []byte(`"from":"`+m.body.From), []byte(`"from":"`+to), 1)
}

func TestCheck_names_the_promise_that_a_damaged_log_breaks(t *testing.T) {
	seed := 0 // a fresh one at night
	if os.Getenv(testtier.Variable) == "nightly" {
		seed = int(time.Now().Unix())
	}
	wanted := testtier.Rounds(10, 20, 500)
	for _, damage := range damages {
		t.Run(damage.name, func(t *testing.T) {
			logs := rapid.Custom(func(t *rapid.T) *damaged {
				truth := drawTruth(t, rapid.IntRange(0, 1).Draw(t, "restorations"))
				d := &damaged{t: t, truth: truth, log: drawLog(t, truth), options: Options{Seed: 11, Canaries: NewCanaries(secret)}}
				d.done = damage.do(d)
				return d
			})
			applied, end := 0, seed+100*wanted
			for seed := seed; applied < wanted && seed < end; seed++ {
				if d := logs.Example(seed); d.done {
					applied++
					d.mustBreak(t, damage.promise, seed)
				}
			}
			assert.Equal(t, wanted, applied, "logs that could be damaged")
		})
	}
}

// mustBreak fails where the judge does not name the promise that the damage breaks.
func (d *damaged) mustBreak(t *testing.T, promise Promise, seed int) {
	t.Helper()
	found := Check(d.truth, d.log, d.options)
	i := slices.IndexFunc(found, func(v Violation) bool { return v.Promise == promise })
	require.GreaterOrEqual(t, i, 0, "log %d: want a violation of %s, got %v", seed, promise, found)
	if s := found[i].String(); !strings.Contains(s, "seed 11") || strings.Contains(s, secret) {
		t.Errorf("log %d: a violation must have the seed and no secret, got %s", seed, s)
	}
}

func TestCanaries_are_found_in_every_disguise_and_nothing_else_is(t *testing.T) {
	c := NewCanaries("0123456789abcdefghij", secret)
	for name, s := range map[string]string{
		"raw":             secret,
		"first bytes":     secret[:piece],
		"last bytes":      secret[len(secret)-piece:],
		"base64":          base64.StdEncoding.EncodeToString([]byte(secret)),
		"base64, one off": base64.StdEncoding.EncodeToString([]byte("{" + secret + "}")),
		"base64, two off": base64.StdEncoding.EncodeToString([]byte("{{" + secret)),
		"hex":             hex.EncodeToString([]byte(secret)),
		"piece of hex":    hex.EncodeToString([]byte(secret))[5 : 5+2*piece],
		"quoted":          strconv.Quote(secret),
	} {
		for _, around := range []string{"", "x", "some text that is no secret"} {
			found := c.Find([]byte(around + s + around))
			assert.True(t, len(found) == 1 && strings.HasPrefix(found[0], "secret 1,"), "%s: found %v", name, found)
		}
	}
	if found := c.Find([]byte(secret[:piece-1] + " W3JlZGFjdGVkXQ== " + secret[piece:2*piece-1] +
		hex.EncodeToString([]byte(secret))[:2*piece-1] + " 12:03:04." + hex.EncodeToString([]byte(secret))[3*piece:4*piece])); found != nil {
		t.Errorf("found %v in a text without a piece", found)
	}
}

func TestCanaries_search_finds_what_lies_across_two_reads(t *testing.T) {
	c := NewCanaries(secret)
	long := strings.Repeat("x", 1<<20-piece/2) + secret[:piece+3] + strings.Repeat("y", 1<<20)
	for _, r := range []string{long, long[7:], secret} {
		found, err := c.Search("the file", iotest.HalfReader(strings.NewReader(r)))
		assert.True(t, err == nil && len(found) != 0 && strings.Contains(found[0].String(), "the file"),
			"found %v, %v", found, err)
	}
	assert.Nil(t, must.Get(c.Search("the file", strings.NewReader(strings.Repeat("x", 3<<20))))(t), "found")
}
