package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

// enumerations reads from the source what reflection does not have: the constants of types that are marked +enum.
type enumerations map[string]map[string][]string

func (e enumerations) values(pkg, name string) []string {
	types, ok := e[pkg]
	if !ok {
		types = readPackage(pkg)
		e[pkg] = types
	}
	return types[name]
}

func readPackage(pkg string) map[string][]string {
	out := map[string][]string{}
	if !strings.Contains(pkg, ".") {
		return out
	}
	dir, err := exec.Command("go", "list", "-f", "{{.Dir}}", pkg).Output()
	utilruntime.Must(err)
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(dir)), "*.go"))
	utilruntime.Must(err)
	values := map[string][]string{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") || strings.HasPrefix(filepath.Base(file), "zz_") || strings.HasSuffix(file, "generated.pb.go") {
			continue
		}
		source, err := os.ReadFile(file)
		utilruntime.Must(err)
		parsed, err := parser.ParseFile(token.NewFileSet(), file, source, parser.ParseComments)
		utilruntime.Must(err)
		for _, decl := range parsed.Decls {
			if general, ok := decl.(*ast.GenDecl); ok {
				readDeclaration(general, out, values)
			}
		}
	}
	for name := range out {
		slices.Sort(values[name])
		out[name] = slices.Compact(values[name])
	}
	return out
}

func marked(marker string, docs ...*ast.CommentGroup) bool {
	for _, doc := range docs {
		if doc == nil {
			continue
		}
		for _, line := range doc.List {
			if strings.TrimSpace(strings.TrimPrefix(line.Text, "//")) == marker {
				return true
			}
		}
	}
	return false
}

func readDeclaration(decl *ast.GenDecl, enums, values map[string][]string) {
	for _, spec := range decl.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			if marked("+enum", decl.Doc, spec.Doc) || marked("+k8s:enum", decl.Doc, spec.Doc) {
				enums[spec.Name.Name] = nil
			}
		case *ast.ValueSpec:
			if decl.Tok != token.CONST || marked("+k8s:enumExclude", decl.Doc, spec.Doc) {
				continue
			}
			for _, value := range spec.Values {
				name, _ := spec.Type.(*ast.Ident)
				// The other spelling: Name = Type("value").
				if call, ok := value.(*ast.CallExpr); ok && name == nil && len(call.Args) == 1 {
					name, _ = call.Fun.(*ast.Ident)
					value = call.Args[0]
				}
				if name == nil {
					continue
				}
				literal, ok := value.(*ast.BasicLit)
				if !ok {
					// A value from another package: better no list than one with a gap.
					delete(enums, name.Name)
				} else if literal.Kind == token.STRING {
					text, err := strconv.Unquote(literal.Value)
					utilruntime.Must(err)
					values[name.Name] = append(values[name.Name], text)
				}
			}
		}
	}
}
