// SPDX-License-Identifier: Apache-2.0

// Package try lets the steps of a measurement or a fault be written one below the other, as package must does for
// tests. [Do] and [Get] end the innermost [Run] at the first error, which Run returns.
package try

import "errors"

// failed is what Do panics with.
type failed struct{ error }

// Scope has what is to be done at the end of a [Run].
type Scope struct{ ends []func() error }

// Finally has f called when Run ends, after what is added later. Run returns its error too.
func (s *Scope) Finally(f func() error) { s.ends = append(s.ends, f) }

// Run calls steps, which stay in their goroutine.
func Run(steps func(*Scope)) (err error) {
	s := &Scope{}
	defer func() {
		r := recover()
		f, ours := r.(failed)
		if ours {
			err = f.error
		}
		for n := len(s.ends) - 1; n >= 0; n-- {
			err = errors.Join(err, s.ends[n]())
		}
		if r != nil && !ours {
			panic(r)
		}
	}()
	steps(s)
	return nil
}

// Do ends Run if there is an error.
func Do(err error) {
	if err != nil {
		panic(failed{err})
	}
}

// Get returns a value, unless there is an error, with which it ends Run.
func Get[T any](value T, err error) T {
	Do(err)
	return value
}
