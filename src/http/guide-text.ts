import { existsSync, globSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Marked } from 'marked'
import MiniSearch from 'minisearch'
import { escapeHtml } from './html.ts'

const root = fileURLToPath(new URL('../../docs', import.meta.url))

/** A page of the guide: its place below /guide without an ending, and its content. */
export type GuidePage = { path: string; title: string; language: 'en' | 'es'; html: string }

/** A part of a page that a search found. */
export type FoundPage = { path: string; title: string; text: string }

export type Guide = {
  pages: ReadonlyMap<string, GuidePage>
  /** The parts that fit best, 20 at most. */
  search(query: string): FoundPage[]
}

/** Reads the documents once. `base` is the address below which the guide is served, such as `/guide`. */
export function readGuide(base: string): Guide {
  const files = globSync('**/*.md', { cwd: root })
  const pages = new Map<string, GuidePage>()
  const index = new MiniSearch<FoundPage & { id: string }>({
    fields: ['title', 'text'],
    storeFields: ['path', 'title', 'text'],
    searchOptions: { boost: { title: 3 }, prefix: true, fuzzy: 0.15, combineWith: 'AND' },
    processTerm: (term) => term.normalize('NFD').replace(/\p{M}/gu, '').toLowerCase(),
  })
  for (const file of files) {
    const source = readFileSync(join(root, file), 'utf8').replace(/^ *<!--.*-->\n/gm, '')
    const path = pathOf(file)
    const title = /^# (.*)$/m.exec(source)?.[1] ?? path
    pages.set(path, {
      path,
      title,
      language: file.startsWith('es/') ? 'es' : 'en',
      html: rendererOf(file, base).parse(source, { async: false }),
    })
    index.addAll(partsOf(path, title, source))
  }
  return {
    pages,
    search: (query) =>
      index
        .search(query)
        .slice(0, 20)
        .map(({ path, title, text }) => ({ path, title, text })),
  }
}

/** `how-to/refund.md` is `how-to/refund`; the index of a folder has the path of the folder. */
function pathOf(file: string): string {
  return file.replace(/\.md$/, '').replace(/(^|\/)README$/, '')
}

/** The anchor that GitHub gives a heading too. */
function anchorOf(heading: string): string {
  return heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\s_-]/gu, '')
    .replace(/\s/g, '-')
}

/** HTML in a document is text. Links to other documents lead to their pages; a link to what is not in the guide is text. */
function rendererOf(file: string, base: string): Marked {
  return new Marked({
    renderer: {
      heading({ tokens, depth, text }) {
        return `<h${depth} id="${anchorOf(text)}">${this.parser.parseInline(tokens)}</h${depth}>\n`
      },
      link({ href, tokens }) {
        const target = /^(https?:|#)/.test(href) ? href : addressOf(file, href, base)
        const text = this.parser.parseInline(tokens)
        return target === undefined ? text : `<a href="${escapeHtml(target)}">${text}</a>`
      },
      image: () => '',
      html: ({ text }) => escapeHtml(text),
    },
    hooks: {
      postprocess: (html) =>
        html
          .replaceAll('<table>', '<div class="table" tabindex="0"><table>')
          .replaceAll('</table>', '</table></div>')
          .replaceAll('<pre>', '<pre tabindex="0">'),
    },
  })
}

function addressOf(file: string, href: string, base: string): string | undefined {
  const [name = '', anchor] = href.split('#')
  const target = join(dirname(file), name)
  if (target.startsWith('..') || !target.endsWith('.md') || !existsSync(join(root, target))) {
    return undefined
  }
  const path = pathOf(target)
  return `${base}/${path}${anchor === undefined ? '' : `#${anchor}`}`
}

/** Each section is found by itself. */
function partsOf(path: string, title: string, source: string): (FoundPage & { id: string })[] {
  const [head = '', ...sections] = source.split(/^## /m)
  const whole = { id: path, path, title, text: plain(head.replace(/^# .*$/m, '')) }
  return [
    whole,
    ...sections.map((section) => {
      const heading = section.split('\n', 1)[0] ?? ''
      const place = `${path}#${anchorOf(heading)}`
      return {
        id: place,
        path: place,
        title: `${title}: ${heading}`,
        text: plain(section.slice(heading.length)),
      }
    }),
  ]
}

function plain(markdown: string): string {
  return markdown
    .replace(/\[([^\]]*)\]\([^)]*\)/g, '$1')
    .replace(/[`*|#>]|-{3,}/g, ' ')
    .replace(/\s+/g, ' ')
    .trim()
}
