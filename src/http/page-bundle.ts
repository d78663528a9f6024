import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join, posix } from 'node:path'

/** A folder of pages and its path in a browser, such as `/dashboard`. */
export type Folder = {
  root: string
  prefix: string
  /** Files of packages by their names; a folder that has these has no others. */
  files?: ReadonlyMap<string, string>
}

/** The path of the packages that modules import by name: `/packages/@codemirror/view` is its entry for browsers. */
export const packagePrefix = '/packages'

/** The languages of the pages; the first is for browsers that ask for neither. */
export const pageLanguages = ['es', 'en'] as const
export type PageLanguage = (typeof pageLanguages)[number]

export type PageBundle = {
  html: Record<PageLanguage, string>
  /** The scripts by the name of their part: the first one of each language, and those that are fetched later. */
  scripts: Map<string, string>
  style: string
}

/**
 * Builds a page for browsers: its modules become one script and its style sheets one. Over HTTP/1.1 each file of a deep
 * chain of imports costs a round trip on a slow line. `publicPath` is the prefix of all our paths. The files stay as
 * they are: this joins them, each module in a function of its own, and the page refers to the two by `?v=` and a hash
 * of their content. A file that modules fetch later is in a `<meta name="later:…">`, which gets its `?v=` too. esbuild
 * and rolldown are not used: they are native programs of some 10 MB in the tills' process, or need a build step, for
 * fifty files whose form is our choice.
 *
 * A module that is fetched by `import('./x.js')` is a part of its own, with all that only it needs. The texts of a
 * language, `texts/es.js`, are already in the script of the page in that language.
 *
 * Modules may use only `import { … } from './x.js'`, `import './x.js'` and `export` before a function, class or const.
 * Those of a library may have the form of minifiers: `import{…}from"./x.js";` and `export{…};`. A module of a package is imported by
 * its name, `import { … } from '@codemirror/view'`, from a folder of `others` for packages, see {@link packagePrefix}.
 *
 * @throws for any other form, for a circle of imports, and for a missing file.
 */
export function bundlePage(page: Folder, others: readonly Folder[], publicPath = ''): PageBundle {
  const read = reader([page, ...others])
  const html = readFileSync(join(page.root, 'index.html'), 'utf8')
  const sheets = [...html.matchAll(sheetLink)].map((match) => String(match[1]))
  const entry = moduleScript.exec(html)?.[1]
  const style = sheets.map(read).join('\n').replace(comment, '')
  const scripts = new Map<string, string>()
  const script = `${publicPath}${page.prefix}/page.js`
  const inLanguage = (language: PageLanguage) => {
    const text =
      entry === undefined ? '' : bundleModules({ entry, read, language, script, parts: scripts })
    scripts.set(language, text)
    let isFirst = true
    return html
      .replace('<html lang="es">', `<html lang="${language}">`)
      .replace(sheetLink, () => {
        const link = isFirst
          ? `<link rel="stylesheet" href="${publicPath}${page.prefix}/page.css?v=${versionOf(style)}">\n`
          : ''
        isFirst = false
        return link
      })
      .replace(
        moduleScript,
        () =>
          `<script type="module" src="${script}?part=${language}&amp;v=${versionOf(text)}"></script>`,
      )
      .replace(laterFile, (_line, start: string, path: string) => {
        return `${start}${publicPath}${path}?v=${versionOf(read(path))}">`
      })
      .replace(otherLink, (_line, start: string) => `${start}${publicPath}/`)
  }
  return { html: { es: inLanguage('es'), en: inLanguage('en') }, scripts, style }
}

const sheetLink = /<link rel="stylesheet" href="([^"]+)">\n?/g
const otherLink = /(<link rel="(?:icon|preload)" href=")\//g
const laterFile = /(<meta name="later:\w+" content=")([^"]+)">/g
const moduleScript = /<script type="module" src="([^"]+)"><\/script>/
const importLine = /^import (?:(?:\{([^}]*)\}|(\w+)) from )?'([^']+)';?\n/gm
const exportMark = /^export (default )?(?=(?:async )?(?:class|const|function|let|var) (\w+))/gm
/** What a module hands on from another one. */
const handedOn = /^export \{([^}]*)\} from '([^']+)';?\n/gm
const laterImport = /\bimport\('(\.[^']+)'\)/g
const minifiedImport = /\bimport\{([^}]*)\}from"(\.[^"]+)";/g
const minifiedExport = /\bexport ?\{([^}]*)\};/g
/** Comments on lines of their own: a seventh of what is sent, and browsers do not need them. */
const comment = /^[ \t]*(?:\/\*(?:(?!\*\/)[\s\S])*\*\/|\/\/.*)\n/gm
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
    const name = path.slice(folder.prefix.length)
    const file = folder.files ? folder.files.get(name.slice(1)) : join(folder.root, name)
    if (file === undefined) throw new Error(`${name.slice(1)} is none of the pages' packages`)
    return readFileSync(file, 'utf8')
  }
}

/**
 * The start of a page's script. A part that did not arrive is fetched again from another address, since browsers
 * remember that an address failed.
 */
const partLoader = `const held = {}
const tries = {}
const bundledPart = async (path, file) => {
  if (held[path] === undefined) {
    const again = tries[path] ? '&again=' + tries[path] : ''
    tries[path] = (tries[path] ?? 0) + 1
    const part = await import(file + again)
    part.add(held, bundledPart)
  }
  return held[path]
}
`

type Bundling = {
  entry: string
  read: (path: string) => string
  language: PageLanguage
  /** The address of the parts, and their content by name. */
  script: string
  parts: Map<string, string>
}

/** Names inside `export { … }`: `a as b` is the local name and that of the export. */
function namesOffered(given: string, of: string): string[] {
  return given.split(',').flatMap((one) => {
    const [local = '', name = local] = one.trim().split(' as ')
    return local === '' ? [] : [`${name}: ${of}${local}`]
  })
}

function bundleModules({ entry, read, language, script, parts }: Bundling): string {
  const begun = new Map<string, string>()
  const laterOnes: { path: string; hole: string }[] = []

  /** Adds a module to `into`, after the modules that it imports, unless `first` or `into` have it. */
  const add = (
    path: string,
    into: Map<string, string>,
    first: Map<string, string>,
    way: string[],
  ) => {
    if (first.has(path) || into.has(path)) return
    if (way.includes(path)) throw new Error(`${path} imports itself by a detour`)
    const exported: string[] = []
    const at = (from: string) =>
      from.startsWith('.') ? posix.join(posix.dirname(path), from) : `${packagePrefix}/${from}`
    const need = (wanted: string) => {
      add(wanted, into, first, [...way, path])
      return `held['${wanted}']`
    }
    const take = (wanted: string | undefined, from: string) => {
      const source = need(at(from))
      return wanted === undefined ? '' : `const {${wanted.replace(/ as /g, ': ')}} = ${source}\n`
    }
    const offer = (given: string, of = '') => {
      exported.push(...namesOffered(given, of))
      return '\n'
    }
    const body = read(path)
      .replace(importLine, (_line, wanted, whole, from) =>
        take(whole === undefined ? wanted : `default as ${whole}`, from),
      )
      .replace(minifiedImport, (_line, wanted, from) => take(wanted, from))
      .replace(handedOn, (_line, given, from) => offer(given, `${need(at(from))}.`))
      .replace(laterImport, (_call, from: string) => {
        const wanted = at(from)
        if (wanted.endsWith(`/texts/${language}.js`)) return `Promise.resolve(${need(wanted)})`
        const hole = `bundledPart('${wanted}', '${script}?part=`
        laterOnes.push({ path: wanted, hole })
        return hole
      })
      .replace(exportMark, (_mark, isDefault: string | undefined, name: string) => {
        exported.push(isDefault === undefined ? name : `default: ${name}`)
        return ''
      })
      .replace(minifiedExport, (_mark, given: string) => offer(given))
      .replace(mapComment, '')
      .replace(comment, '')
    const strange = unknownForm.exec(body)
    if (strange) throw new Error(`${path}: a bundle cannot hold ${strange[0]}`)
    into.set(path, `held['${path}'] ??= (() => {\n${body}return { ${exported.join(', ')} }\n})()\n`)
  }
  /** Completes the addresses of later parts. Each has a hash of its part's content, so the part is bundled first. */
  const filled = (text: string) =>
    laterOnes.reduce((whole, { path, hole }) => {
      if (!whole.includes(hole)) return whole
      const name = path.split('/').slice(2).join('/')
      if (!parts.has(name)) parts.set(name, partOf(path))
      return whole.replaceAll(hole, `${hole}${name}&v=${versionOf(String(parts.get(name)))}')`)
    }, text)
  const partOf = (path: string) => {
    const own = new Map<string, string>()
    add(path, own, begun, [])
    return filled(`export const add = (held, bundledPart) => {\n${[...own.values()].join('')}}\n`)
  }
  add(entry, begun, new Map(), [])
  return partLoader + filled([...begun.values()].join(''))
}
