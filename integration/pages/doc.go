// SPDX-License-Identifier: Apache-2.0

// Package pages tests the pages for users: their links, their files, and their commands.
//
// A page is run from top to bottom, on a real API server and a real broker:
//
//   - A block of YAML whose first line is a comment with a name, such as "# bridge.yaml", is written to that file.
//   - A block of sh is run. If it ends with run, or with a tail that follows, that goes on in a terminal of its own.
//   - A block of text has to be in what the last block, or a terminal, has printed: these lines in this order. Times,
//     versions and uids may differ.
//   - <!-- not run: why --> before a block leaves it out. <!-- stop: words --> ends the terminal whose command has
//     these words.
package pages
