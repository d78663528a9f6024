import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join, posix } from 'node:path'

/** A folder of pages and the path under which browsers see it, such as `/dashboard`. */
export type Folder = { root: string; prefix: string }

export type PageBundle = { html: string; script: string; style: string }

/**
 * A page as browsers get it: its modules in one script and its style sheets in one, because over HTTP/1.1 each file of a
 * deep chain of imports costs a slow line a round trip. The files stay as they are written; this puts them side by side,
 * each module in a function of its own, and refers to the two by `?v=` and a hash of what they hold. Not with esbuild or
 * rolldown: they are native programs of some 10 MB beside the tills' process, or a build step, for fifty files whose form is
 * ours to choose. A file that modules fetch later stands in a `<meta name="later:…">`, which gets its `?v=` too.
 *
 * Modules may use `import { … } from './x.js'`, `import './x.js'` and `export` before a function, class or const, nothing
 * else; those of a library may have the form that minifiers give them, `import{…}from"./x.js";` and `export{…};`. Throws for
 * any other form, for a circle of imports, and for a file that is not there.
 */
export function bundlePage(page: Folder, others: readonly Folder[]): PageBundle {
  const read = reader([page, ...others])
  const html = readFileSync(join(page.root, 'index.html'), 'utf8')
  const sheets = [...html.matchAll(sheetLink)].map((match) => String(match[1]))
  const entry = moduleScript.exec(html)?.[1]
  const style = sheets.map(read).join('\n')
  const script = entry === undefined ? '' : bundleModules(entry, read)
  let isFirst = true
  return {
    html: html
      .replace(sheetLink, () => {
        const link = isFirst
          ? `<link rel="stylesheet" href="${page.prefix}/page.css?v=${versionOf(style)}">\n`
          : ''
        isFirst = false
        return link
      })
      .replace(
        moduleScript,
        () => `<script type="module" src="${page.prefix}/page.js?v=${versionOf(script)}"></script>`,
      )
      .replace(laterFile, (_line, start: string, path: string) => {
        return `${start}${path}?v=${versionOf(read(path))}">`
      }),
    script,
    style,
  }
}

const sheetLink = /<link rel="stylesheet" href="([^"]+)">\n?/g
const laterFile = /(<meta name="later:\w+" content=")([^"]+)">/g
const moduleScript = /<script type="module" src="([^"]+)"><\/script>/
const importLine = /^import (?:\{([^}]*)\} from )?'(\.[^']+)'\n/gm
const exportMark = /^export (?=(?:async )?(?:class|const|function) (\w+))/gm
const minifiedImport = /\bimport\{([^}]*)\}from"(\.[^"]+)";/g
const minifiedExport = /\bexport\{([^}]*)\};/g
/** Comments on lines of their own: a seventh of what the line carries, and no browser reads them. */
const comment = /^[ \t]*(?:\/\*\*?[\s\S]*?\*\/|\/\/.*)\n/gm
const mapComment = /^\/\/# sourceMappingURL=.*\n?/gm
const unknownForm = /^(?:import|export)\b.*/m

/** Changes with the content and only with it. */
export function versionOf(content: string): string {
  return createHash('sha256').update(content).digest('base64url').slice(0, 16)
}

function reader(folders: readonly Folder[]): (path: string) => string {
  return (path) => {
    const folder = folders.find(({ prefix }) => path.startsWith(`${prefix}/`))
    if (!folder) throw new Error(`${path} belongs to none of the pages' folders`)
    return readFileSync(join(folder.root, path.slice(folder.prefix.length)), 'utf8')
  }
}

function bundleModules(entry: string, read: (path: string) => string): string {
  const parts: string[] = []
  const names = new Map<string, string>()
  const underWay = new Set<string>()

  /** Adds a module after those it imports, once; answers what it is called in the bundle. */
  const add = (path: string): string => {
    const known = names.get(path)
    if (known !== undefined) return known
    if (underWay.has(path)) throw new Error(`${path} imports itself by a detour`)
    underWay.add(path)
    const exported: string[] = []
    const take = (_line: string, wanted: string | undefined, from: string) => {
      const source = add(posix.join(posix.dirname(path), from))
      return wanted === undefined ? '' : `const {${wanted.replace(/ as /g, ': ')}} = ${source}\n`
    }
    const body = read(path)
      .replace(importLine, take)
      .replace(minifiedImport, take)
      .replace(exportMark, (_mark, name: string) => {
        exported.push(name)
        return ''
      })
      .replace(minifiedExport, (_mark, given: string) => {
        exported.push(...given.split(',').map((one) => one.replace(/^(\S+) as (\S+)$/, '$2: $1')))
        return '\n'
      })
      .replace(mapComment, '')
      .replace(comment, '')
    const strange = unknownForm.exec(body)
    if (strange) throw new Error(`${path}: a bundle cannot hold ${strange[0]}`)
    const name = `module${names.size}`
    names.set(path, name)
    parts.push(`const ${name} = (() => {\n${body}return { ${exported.join(', ')} }\n})()\n`)
    return name
  }
  add(entry)
  return parts.join('')
}
