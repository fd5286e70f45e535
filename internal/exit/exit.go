// SPDX-License-Identifier: Apache-2.0

// Package exit has the exit codes of the program, and marks the errors that a user mends by writing something else.
package exit

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// The exit codes; a second signal adds 128+n.
const (
	Done   = 0
	Failed = 1
	Usage  = 2
)

// UsageError marks a command line that the user has to write differently. Its text says what is wrong and what to do
// instead. The help of the command is named after it.
type UsageError struct{ Err error }

// Error implements error.
func (e *UsageError) Error() string { return e.Err.Error() }

// Unwrap returns what is wrong.
func (e *UsageError) Unwrap() error { return e.Err }

// Usagef is a [UsageError] made as by fmt.Errorf.
func Usagef(format string, args ...any) error { return &UsageError{fmt.Errorf(format, args...)} }

// InputError marks a name, a file or a variable that is wrong, where no flag is and help would not.
type InputError struct{ Err error }

// Error implements error.
func (e *InputError) Error() string { return e.Err.Error() }

// Unwrap returns what is wrong.
func (e *InputError) Unwrap() error { return e.Err }

// ReaderGone reports whether an error says that the reader of the standard output has ended, as head does once it has
// enough.
func ReaderGone(err error) bool {
	var at *fs.PathError
	return errors.As(err, &at) && at.Path == os.Stdout.Name() && errors.Is(at.Err, syscall.EPIPE)
}
