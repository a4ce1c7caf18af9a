//go:build tools

// Names h2spec, so that go.mod and go.sum hold it and all it needs.
package tools

import (
	_ "github.com/spf13/cobra" // of its command
	_ "github.com/summerwind/h2spec"
)
