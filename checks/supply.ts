/** The fields of a package in package-lock.json that the checks read. */
export type LockedPackage = {
  version?: string
  license?: string
  integrity?: string
  resolved?: string
  link?: boolean
  dev?: boolean
}

export type Lockfile = {
  packages: Record<string, LockedPackage & { devDependencies?: Record<string, string> }>
}

export type Manifest = { devDependencies?: Record<string, string> }

/**
 * Licences under which the service may be passed on together with the package: permissive ones, which ask for their text
 * and nothing else. Another one is a decision for a person, who adds it here or takes the package out.
 */
export const allowedLicences: ReadonlySet<string> = new Set([
  '0BSD',
  'Apache-2.0',
  'BlueOak-1.0.0',
  'BSD-2-Clause',
  'BSD-3-Clause',
  'ISC',
  'MIT',
  'MIT-0',
  // A dedication to the public domain: it asks for nothing.
  'Unlicense',
  '(MIT OR CC0-1.0)',
  // Its terms end at its own files: a user who passes them on unchanged, as a package, says where their source is, which the package
  // itself holds. A change in one of them would have to be published.
  'MPL-2.0',
  // A user who passes it on chooses; the first is allowed above, and the text of both lies in the package.
  '(Apache-2.0 OR UPL-1.0)',
  '(MIT OR Apache-2.0)',
])

/**
 * Packages that declare their licence in the old form (`licenses`), which npm does not copy into the lockfile: read in the package,
 * for that version alone.
 */
const readInPackage: Readonly<Record<string, string>> = {
  'buildcheck@0.0.7': 'MIT',
  'cpu-features@0.0.10': 'MIT',
  'ssh2@1.17.0': 'MIT',
}

/** Packages that are installed with the service and whose licence is not allowed, or unknown. */
export function licenceProblems(lock: Lockfile): string[] {
  return installed(lock)
    .filter(([, { dev }]) => dev !== true)
    .map(([path, { version, license }]) => {
      const name = `${path.replace(/^.*node_modules\//, '')}@${version}`
      return { place: `${path}@${version}`, licence: license ?? readInPackage[name] }
    })
    .filter(({ licence }) => licence === undefined || !allowedLicences.has(licence))
    .map(({ place, licence }) => `${place}: ${licence ?? 'no licence'}`)
}

/**
 * Packages that the lockfile does not hold fast. The content of each is fixed by its SHA-512; none names where it is fetched,
 * so npm asks the registry that the machine is set to, and another host cannot slip in.
 */
export function lockfileProblems(lock: Lockfile): string[] {
  return installed(lock).flatMap(([path, { integrity, resolved, link }]) => [
    ...(link ? [`${path}: is a link to a folder`] : []),
    ...(resolved === undefined ? [] : [`${path}: names an address, ${resolved}`]),
    ...(link || /^sha512-[A-Za-z0-9+/]{86}==$/.test(integrity ?? '')
      ? []
      : [`${path}: has no SHA-512`]),
  ])
}

/**
 * The same project without what only its developers need. (`npm sbom --omit=dev` of npm 11 leaves out packages that both
 * kinds of dependencies share; here it has nothing to leave out.)
 */
export function productionOnly(
  manifest: Manifest,
  lock: Lockfile,
): { manifest: Manifest; lock: Lockfile } {
  const without = <T extends Manifest>({ devDependencies: _, ...rest }: T) => rest
  const kept = Object.entries(lock.packages).filter(([, { dev }]) => dev !== true)
  const packages = Object.fromEntries(kept.map(([path, one]) => [path, without(one)]))
  return { manifest: without(manifest), lock: { ...lock, packages } }
}

/** All packages but the project itself, by their folder. */
function installed(lock: Lockfile): [string, LockedPackage][] {
  return Object.entries(lock.packages).filter(([path]) => path !== '')
}
