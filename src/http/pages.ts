import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import fastifyStatic from '@fastify/static'
import type { FastifyInstance, FastifyPluginAsync, FastifyRequest } from 'fastify'
import { AppError } from '../errors/app-error.ts'
import { createTextSender, type TextSender } from './cached-text.ts'
import { wantsHtml } from './html.ts'
import {
  bundlePage,
  type Folder,
  type PageBundle,
  type PageLanguage,
  packagePrefix,
  pageLanguages,
} from './page-bundle.ts'

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

/** The templates library of the pages, as its authors publish it for browsers; it is bundled in the pages' own script. */
const templates: Folder = {
  root: join(dirname(createRequire(import.meta.url).resolve('lit-html')), '..'),
  prefix: '/vendor/lit-html',
}

/** The editor of flow definitions, in the modules that its authors publish for browsers. Bundled as a part that comes later. */
const packages: Folder = {
  root: '',
  prefix: packagePrefix,
  files: new Map(
    [
      ...[
        'autocomplete',
        'commands',
        'lang-yaml',
        'language',
        'lint',
        'state',
        'streamparser',
        'view',
      ].map((name) => `@codemirror/${name}`),
      ...['common', 'highlight', 'lr', 'yaml'].map((name) => `@lezer/${name}`),
      ...['@marijn/find-cluster-break', 'crelt', 'style-mod', 'w3c-keyname'],
    ].map((name) => [name, fileURLToPath(import.meta.resolve(name))]),
  ),
}

/** Where modules and style sheets of a page may be besides its own folder; the longer prefix first. */
export const commonFolders: readonly Folder[] = [shared, templates, vendor, packages]

/**
 * Serves a page under `prefix` (such as `/dashboard`), with and without a slash at the end, so its files must refer to
 * each other by absolute paths. Browsers get its modules as one script and its style sheets as one, compressed. They
 * cache both for ever: the page names them by their content. Browsers ask for the page itself each time, and get 304
 * while it is unchanged. A page has the language that its browser asks for or its user chose. It fetches other texts,
 * and what is not visible at first, later as parts of the script. The files are read when the page is first requested,
 * so a changed file is served after a restart.
 *
 * The content security policy is that of all answers: scripts and styles in files of their own.
 */
export const pages: FastifyPluginAsync<{ folder: Folder }> = async (app, { folder }) => {
  const { prefix } = folder
  let bundle: PageBundle | undefined
  const bundled = () => (bundle ??= bundlePage(folder, commonFolders, app.publicPath))
  await serveFiles(app, folder)
  const options = { schema: { hide: true } }
  const pages = new Map(
    pageLanguages.map((language) => [
      language,
      createTextSender('text/html; charset=utf-8', () => bundled().html[language], [
        'accept-language',
        'cookie',
      ]),
    ]),
  )
  for (const path of [prefix, `${prefix}/`, `${prefix}/index.html`]) {
    app.get(path, options, (request, reply) => pages.get(languageOf(request))?.(request, reply))
  }
  const parts = new Map<string, TextSender>()
  app.get(`${prefix}/page.js`, options, (request, reply) => {
    const { part } = request.query as Record<string, unknown>
    const name = String(part ?? pageLanguages[0])
    const text = bundled().scripts.get(name)
    if (text === undefined) throw new AppError('NOT_FOUND')
    const send = parts.get(name) ?? createTextSender('text/javascript; charset=utf-8', () => text)
    parts.set(name, send)
    return send(request, reply)
  })
  app.get(
    `${prefix}/page.css`,
    options,
    createTextSender('text/css; charset=utf-8', () => bundled().style),
  )
}

/** The language that the user chose on the page, else the first one that the browser asks for. */
function languageOf({ headers, cookies }: FastifyRequest): PageLanguage {
  const { 'tillbridge.language': asked } = cookies
  const chosen = pageLanguages.find((language) => language === asked)
  if (chosen) return chosen
  return headers['accept-language']?.toLowerCase().startsWith('en') ? 'en' : 'es'
}

/** Redirects browsers that open the bare address to the page at `path`. Programs get 404. */
export const startPage: FastifyPluginAsync<{ path: string }> = async (app, { path }) => {
  app.get('/', { schema: { hide: true } }, async (request, reply) => {
    reply.header('vary', 'accept')
    if (!wantsHtml(request)) throw new AppError('NOT_FOUND')
    return reply.redirect(`${app.publicPath}${path}`, 302)
  })
}

/** Serves under `/shared` the files that the pages of both listeners use. */
export const sharedParts: FastifyPluginAsync = async (app) => {
  await serveFiles(app, shared)
  const read = () => readFileSync(join(vendor.root, chartScript), 'utf8')
  const send = createTextSender('text/javascript; charset=utf-8', read)
  app.get(`${vendor.prefix}/${chartScript}`, { schema: { hide: true } }, send)
}

async function serveFiles(scope: FastifyInstance, { root, prefix }: Folder): Promise<void> {
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
