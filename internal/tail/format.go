// SPDX-License-Identifier: Apache-2.0

package tail

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/kube-eventbridge/kube-eventbridge/internal/event"
)

// Printer shows events one after another.
type Printer interface {
	// Print shows e. previous returns the state of the object before e, or nil where that is not known; it may ask
	// the broker.
	Print(e *event.Event, previous func() *event.Event) error
}

// JSON prints each event as a structured CloudEvent in one line.
type JSON struct{ W io.Writer }

// Print implements [Printer].
func (j JSON) Print(e *event.Event, _ func() *event.Event) error {
	line, err := e.AppendJSON(nil)
	if err != nil {
		return err
	}
	if _, err := j.W.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

// TableConfig says how a [Table] looks.
type TableConfig struct {
	// Wide adds the place in the log, the pipeline, the reason and the uid, full times and versions, and names more
	// paths.
	Wide bool
	// Colour marks operations with ANSI sequences.
	Colour bool
	// NoHeaders leaves out the line with the columns' names.
	NoHeaders bool
	// Location is the time zone; nil means UTC.
	Location *time.Location
	// Today is the day that times are of unless a line says otherwise.
	Today time.Time
}

// Table prints each event as a line of aligned columns. Nothing from the log reaches W unquoted.
type Table struct {
	w       io.Writer
	cfg     TableConfig
	columns []column
	day     string
	begun   bool
}

// column has a width that grows with what is printed, up to a limit: longer cells push the rest of their line.
type column struct {
	name         string
	width, limit int
}

const day = "2006-01-02"

// NewTable returns a table that writes to w.
func NewTable(w io.Writer, cfg TableConfig) *Table {
	if cfg.Location == nil {
		cfg.Location = time.UTC
	}
	t := &Table{w: w, cfg: cfg, day: cfg.Today.In(cfg.Location).Format(day)}
	if cfg.Wide {
		t.columns = []column{
			{"TIME", 29, 29},
			{"SEQ", 6, 12},
			{"PIPELINE", 8, 20},
			{"OP", 8, 8},
			{"REASON", 8, 10},
			{"RESOURCE", 20, 40},
			{"OBJECT", 32, 64},
			{"VERSION", 8, 20},
			{"MANAGER", 24, 32},
			{"UID", 36, 36},
		}
	} else {
		t.columns = []column{
			{"TIME", 12, 12}, {"OP", 8, 8}, {"RESOURCE", 16, 24}, {"OBJECT", 32, 40}, {"VERSION", 8, 20}, {"MANAGER", 24, 24},
		}
	}
	return t
}

// Begin prints the line with the columns' names now instead of before the first event.
func (t *Table) Begin() error {
	var b strings.Builder
	t.header(&b)
	return t.write(b.String())
}

// header writes the columns' names, the first time.
func (t *Table) header(b *strings.Builder) {
	if !t.begun && !t.cfg.NoHeaders {
		names := make([]string, 0, len(t.columns))
		for _, c := range t.columns {
			names = append(names, c.name)
		}
		b.WriteString(t.row(names, "WHAT", ""))
	}
	t.begun = true
}

// Print implements [Printer].
func (t *Table) Print(e *event.Event, previous func() *event.Event) error {
	var b strings.Builder
	t.header(&b)
	t.newDay(&b, e)
	limit := 4
	if t.cfg.Wide {
		limit = 16
	}
	b.WriteString(t.row(t.cells(e), Describe(e, previous, limit), t.colour(e.Op)))
	return t.write(b.String())
}

func (t *Table) write(text string) error {
	if _, err := io.WriteString(t.w, text); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

// newDay writes a line with the date where it is not the one before; wide lines have it anyway.
func (t *Table) newDay(b *strings.Builder, e *event.Event) {
	if d := e.Time().In(t.cfg.Location).Format(day); !t.cfg.Wide && d != t.day {
		t.day = d
		b.WriteString("--- " + d + " ---\n")
	}
}

func (t *Table) cells(e *event.Event) []string {
	at := e.Time().In(t.cfg.Location)
	object := e.Object
	if e.Op.Marker() {
		object = scopeOf(e).String()
	}
	resource := e.Resource
	if t.cfg.Wide {
		resource += "." + e.Version
	}
	if e.Group != "" {
		resource += "." + e.Group
	}
	op, resource, object, version := opWord(e.Op), cell(resource, 100), cell(object, 400),
		cell(e.Attr("resourceversion"), 40)
	if !t.cfg.Wide {
		return []string{at.Format("15:04:05.000"), op, resource, object, version, cell(e.Attr("fieldmanager"), 24)}
	}
	return []string{
		at.Format("2006-01-02T15:04:05.000Z07:00"), e.Location(), cell(e.Attr("pipeline"), 64), op,
		cell(e.Attr("reason"), 16), resource, object, version, cell(e.Attr("fieldmanager"), 64),
		cell(e.Attr("objectuid"), 64),
	}
}

func cell(s string, limit int) string {
	if s == "" {
		return "-"
	}
	return shorten(strings.ReplaceAll(Printable(s), " ", `\x20`), limit)
}

func (t *Table) row(cells []string, what, colour string) string {
	var b strings.Builder
	for i, c := range cells {
		col := &t.columns[i]
		n := utf8.RuneCountInString(c)
		col.width = min(max(col.width, n), col.limit)
		pad := max(col.width-n, 0) + 2
		if colour != "" && col.name == "OP" {
			c = colour + c + reset
		}
		b.WriteString(c + strings.Repeat(" ", pad))
	}
	return strings.TrimRight(b.String()+what, " ") + "\n"
}

const reset = "\x1b[0m"

func (t *Table) colour(op event.Op) string {
	if !t.cfg.Colour {
		return ""
	}
	switch op {
	case event.Added:
		return "\x1b[32m"
	case event.Updated:
		return "\x1b[33m"
	case event.Deleted:
		return "\x1b[31m"
	case event.Gap, event.Rejected, event.Unknown:
		return "\x1b[1;35m"
	case event.SnapshotStarted, event.SnapshotCompleted, event.ResyncStarted, event.ResyncCompleted:
		return "\x1b[36m"
	default:
		return ""
	}
}

// scope is the part of a resource that a marker is about.
type scope struct{ Namespace, LabelSelector, FieldSelector string }

func scopeOf(e *event.Event) scope {
	var s scope
	_ = json.Unmarshal(e.Data, &s) // what cannot be read is the whole resource
	return s
}

func (s scope) String() string {
	text := "*"
	if s.Namespace != "" {
		text = s.Namespace + "/*"
	}
	for _, selector := range []string{s.LabelSelector, s.FieldSelector} {
		if selector != "" {
			text += "[" + selector + "]"
		}
	}
	return text
}

// Printable returns s for a terminal: as it is where every rune is printable, else with escapes in place of those that
// are not. The result never holds a control character, a direction mark, a line break or a byte that is not UTF-8.
func Printable(s string) string {
	if printable(s) {
		return s
	}
	quoted := strconv.Quote(s)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}

func printable(s string) bool {
	if !utf8.ValidString(s) {
		return false
	}
	for _, r := range s {
		if !strconv.IsPrint(r) {
			return false
		}
	}
	return true
}

// shorten cuts s, which must be printable, to at most n runes.
func shorten(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n-1]) + "…"
}

// opWord is the op in the table: both ends of a snapshot are called snapshot there, and both of a resync, resync.
func opWord(o event.Op) string {
	word, _, _ := strings.Cut(string(o), "-")
	return word
}
