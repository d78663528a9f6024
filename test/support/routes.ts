import type { TestService } from './service.ts'

/** Every route of the listener as `METHOD /path/:param`, pages and the ones that plugins add included. */
export function routesOf(service: Pick<TestService, 'app'>): string[] {
  const path: string[] = []
  return service.app
    .printRoutes({ commonPrefix: false })
    .split('\n')
    .flatMap((line) => {
      const [, indent, part, methods] =
        /^((?:│ {3}| {4})*)[├└]── (\S+)(?: \(([A-Z, ]+)\))?$/.exec(line) ?? []
      if (indent === undefined || part === undefined) return []
      path.splice(indent.length / 4)
      path.push(part)
      return (methods?.split(', ') ?? []).map((method) => `${method} ${path.join('')}`)
    })
    .sort()
}
