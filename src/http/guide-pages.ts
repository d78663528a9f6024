import { readFileSync } from 'node:fs'
import type { FastifyPluginAsync } from 'fastify'
import { AppError } from '../errors/app-error.ts'
import { createTextSender, type TextSender } from './cached-text.ts'
import { type FoundPage, type Guide, type GuidePage, readGuide } from './guide-text.ts'
import { escapeHtml } from './html.ts'

const prefix = '/guide'
const styles = ['../../public/shared/css/base.css', '../../public/guide/guide.css']

const words = {
  en: {
    guide: 'Guide',
    other: 'En castellano',
    otherPath: 'es',
    search: 'Search',
    none: 'Nothing found. Try fewer or other words.',
    found: 'Found',
  },
  es: {
    guide: 'Guía',
    other: 'In English',
    otherPath: '',
    search: 'Buscar',
    none: 'No se encontró nada. Probá con menos palabras, u otras.',
    found: 'Resultados',
  },
} as const
type Language = keyof typeof words

/** The page about each view of the dashboards; in Spanish, too, where it is translated. */
export const pagesOfViews: Readonly<Record<string, readonly [page: string, spanish?: string]>> = {
  overview: ['how-to/supervisor-guide', 'es/guia-supervisores'],
  orders: ['how-to/decide-an-unclear-charge', 'es/guia-supervisores'],
  order: ['how-to/decide-an-unclear-charge', 'es/guia-supervisores'],
  stores: ['how-to/pair-a-terminal'],
  closings: ['how-to/close-a-day'],
  clients: ['how-to/connect-a-shop'],
  events: ['how-to/let-the-erp-know'],
  webhooks: ['how-to/monitor'],
  activity: ['how-to/check-the-audit-log'],
  people: ['how-to/people'],
  account: ['how-to/people'],
  flows: ['how-to/run-flows'],
  destinations: ['how-to/when-something-fails'],
  errors: ['how-to/when-something-fails'],
  item: ['how-to/run-flows'],
  workbench: ['how-to/write-a-flow-in-the-browser'],
}

/**
 * Serves the documents of docs/ below /guide, with a search, to every caller of the listener. The pages need no
 * script. The documents are read at the first request.
 */
export const guidePages: FastifyPluginAsync = async (app) => {
  let guide: Guide | undefined
  const read = () => (guide ??= readGuide(`${app.publicPath}${prefix}`))
  const options = { schema: { hide: true } }
  const senders = new Map<string, TextSender>()
  app.get(
    `${prefix}/guide.css`,
    options,
    createTextSender('text/css; charset=utf-8', () =>
      styles.map((file) => readFileSync(new URL(file, import.meta.url), 'utf8')).join('\n'),
    ),
  )
  app.get(`${prefix}/search`, options, (request, reply) => {
    const { q, language } = request.query as Record<string, unknown>
    const query = String(q ?? '').slice(0, 200)
    const found = read().search(query)
    const shown: Language = language === 'es' ? 'es' : 'en'
    const page = { title: query, language: shown, html: foundHtml(found, query, shown, base()) }
    return reply.type('text/html; charset=utf-8').send(layout(page, base(), query))
  })
  app.get(`${prefix}/view/:language/:view`, options, (request, reply) => {
    const { language, view } = request.params as { language: string; view: string }
    const [page, spanish = page] = Object.hasOwn(pagesOfViews, view)
      ? (pagesOfViews[view] ?? [''])
      : ['']
    return reply.redirect(`${base()}/${language === 'es' ? spanish : page}`)
  })
  for (const path of [prefix, `${prefix}/*`]) {
    app.get(path, options, (request, reply) => {
      const { '*': asked = '' } = request.params as { '*'?: string }
      const name = asked.replace(/\/$/, '').replace(/\.md$/, '')
      const page = read().pages.get(name)
      if (page === undefined) throw new AppError('NOT_FOUND')
      const send =
        senders.get(name) ??
        createTextSender('text/html; charset=utf-8', () => layout(page, base(), ''))
      senders.set(name, send)
      return send(request, reply)
    })
  }
  function base(): string {
    return `${app.publicPath}${prefix}`
  }
}

function layout(
  { title, language, html }: Pick<GuidePage, 'title' | 'language' | 'html'>,
  base: string,
  query: string,
): string {
  const text = words[language]
  const home = language === 'es' ? `${base}/es` : `${base}/`
  return `<!doctype html>
<html lang="${language}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escapeHtml(title)} · tillbridge</title>
<link rel="icon" href="${base.slice(0, -prefix.length)}/shared/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="${base}/guide.css">
</head>
<body>
<header>
<a href="${home}">tillbridge · ${text.guide}</a>
<a href="${base}/${text.otherPath}" lang="${language === 'es' ? 'en' : 'es'}">${text.other}</a>
<form action="${base}/search" role="search">
<input type="hidden" name="language" value="${language}">
<input type="search" name="q" value="${escapeHtml(query)}" aria-label="${text.search}" required maxlength="200">
<button>${text.search}</button>
</form>
</header>
<main>
${html}</main>
</body>
</html>
`
}

function foundHtml(found: readonly FoundPage[], query: string, language: Language, base: string) {
  const text = words[language]
  const items = found.map(
    ({ path, title, text: content }) =>
      `<li><a href="${base}/${escapeHtml(path)}">${escapeHtml(title)}</a><p>${escapeHtml(content.slice(0, 200))}</p></li>`,
  )
  const heading = `<h1>${text.found}: ${escapeHtml(query)}</h1>\n`
  if (items.length === 0) return `${heading}<p>${text.none}</p>\n`
  return `${heading}<ul class="found">\n${items.join('\n')}\n</ul>\n`
}
