import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import fastifyStatic from '@fastify/static'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { AppError } from '../errors/app-error.ts'
import { makePublic } from './access-classes.ts'
import { wantsHtml } from './html.ts'
import {
  bundlePage,
  type Folder,
  type PageBundle,
  type PageLanguage,
  pageLanguages,
} from './page-bundle.ts'
import { createSender, type TextSender } from './text-sender.ts'

const shared: Folder = {
  root: fileURLToPath(new URL('../../public/shared', import.meta.url)),
  prefix: '/shared',
}

/** The charting library as its authors publish it; the pages have its style sheet in their own. */
export const vendor: Folder = {
  root: dirname(createRequire(import.meta.url).resolve('uplot/dist/uPlot.min.css')),
  prefix: '/vendor',
}
const chartScript = 'uPlot.iife.min.js'

/** The templates of the pages, as their authors publish them for browsers; they come inside the pages' own script. */
const templates: Folder = {
  root: join(dirname(createRequire(import.meta.url).resolve('lit-html')), '..'),
  prefix: '/vendor/lit-html',
}

/** Where the modules and style sheets of a page may lie besides its own folder; the longer prefix first. */
export const commonFolders: readonly Folder[] = [shared, templates, vendor]

/**
 * Serves a page under `prefix` (such as `/dashboard`), with and without a slash at the end, so its files must refer to each
 * other by absolute paths. Browsers get its modules as one script and its style sheets as one, compressed, which they keep
 * for good: the page names them by their content. For the page itself they ask again each time and get 304 while nothing
 * changed. A page comes in the language that its browser asks for or somebody chose there, and fetches other texts, and what
 * is not seen first, later as parts of the script. The files are read when the page is first asked for, so a changed one shows after a restart.
 *
 * The content security policy is that of every answer: scripts and styles in files of their own.
 */
export function servePages(app: FastifyInstance, folder: Folder): void {
  const { prefix } = folder
  let bundle: PageBundle | undefined
  const bundled = () => (bundle ??= bundlePage(folder, commonFolders, app.publicPath))
  app.register(async (scope) => {
    await serveFiles(scope, folder)
    const options = { schema: { hide: true } }
    const pages = new Map(
      pageLanguages.map((language) => [
        language,
        createSender('text/html; charset=utf-8', () => bundled().html[language], [
          'accept-language',
          'cookie',
        ]),
      ]),
    )
    for (const path of [prefix, `${prefix}/`, `${prefix}/index.html`]) {
      scope.get(path, options, (request, reply) => pages.get(languageOf(request))?.(request, reply))
    }
    const parts = new Map<string, TextSender>()
    scope.get(`${prefix}/page.js`, options, (request, reply) => {
      const { part } = request.query as Record<string, unknown>
      const name = String(part ?? pageLanguages[0])
      const text = bundled().scripts.get(name)
      if (text === undefined) throw new AppError('NOT_FOUND')
      const send = parts.get(name) ?? createSender('text/javascript; charset=utf-8', () => text)
      parts.set(name, send)
      return send(request, reply)
    })
    scope.get(
      `${prefix}/page.css`,
      options,
      createSender('text/css; charset=utf-8', () => bundled().style),
    )
  })
}

/** The language that somebody chose on the page, else the one that the browser asks for first. */
function languageOf({ headers }: FastifyRequest): PageLanguage {
  const chosen = /(?:^|; )tillbridge\.language=(es|en)(?:;|$)/.exec(headers.cookie ?? '')?.[1]
  if (chosen !== undefined) return chosen as PageLanguage
  return headers['accept-language']?.toLowerCase().startsWith('en') ? 'en' : 'es'
}

/** Shows the page at `path` to browsers that open the bare address. For programs there is nothing there: 404. */
export function leadBrowsersTo(app: FastifyInstance, path: string): void {
  const options = { schema: { hide: true }, config: { access: 'public' } } as const
  app.get('/', options, async (request, reply) => {
    reply.header('vary', 'accept')
    if (!wantsHtml(request)) throw new AppError('NOT_FOUND')
    return reply.redirect(`${app.publicPath}${path}`, 302)
  })
}

/** Serves under `/shared` what the pages of both listeners are made of. */
export function serveSharedParts(app: FastifyInstance): void {
  app.register(async (scope) => {
    await serveFiles(scope, shared)
    const read = () => readFileSync(join(vendor.root, chartScript), 'utf8')
    const send = createSender('text/javascript; charset=utf-8', read)
    scope.get(`${vendor.prefix}/${chartScript}`, { schema: { hide: true } }, send)
  })
}

async function serveFiles(scope: FastifyInstance, { root, prefix }: Folder): Promise<void> {
  makePublic(scope)
  await scope.register(fastifyStatic, {
    root,
    prefix: `${prefix}/`,
    dotfiles: 'ignore',
    acceptRanges: false,
    cacheControl: false,
    setHeaders: (reply) => {
      reply.header('cache-control', 'no-cache')
    },
  })
}
