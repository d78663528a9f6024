/** A random number from 0 to below 1; the same sequence for the same seed (mulberry32). */
export function seeded(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}

/** `id` is the key of the ERP's record, `codigo` the SKU. */
export type Article = { id: string; codigo: string; precio: string; stock: string }

/** The state of a SKU in a shop's double: on sale with a price and the stock of the ERP's location, or not on sale. */
export type OnSale = { price: number; stock: number } | 'not on sale'

/** Actions of people in the shop during a day. Each returns whether it changed anything. */
export type Persons = {
  /** Changes title, text or photos of the product with the SKU. */
  edit(sku: string): boolean
  /** Deletes the product, or moves it to the bin. */
  remove(sku: string): boolean
  /** Sells from, or counts, a location that the ERP does not manage. */
  recount(sku: string): boolean
}

export type ShopOfDay = {
  onSale(sku: string): OnSale
  persons: Persons
  /** The parts that people edited and the ERP must keep: texts, other variants, other locations. */
  untouched(): string[]
}

/**
 * The changes of a day. In each step the ERP's list changes a little; articles disappear, return, get another id, and have the SKU
 * of another one for a while.
 * @param onePrice articles that always have the same price
 */
export function dayOf(skus: readonly string[], seed: number, onePrice: readonly string[] = []) {
  const random = seeded(seed)
  const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)] as T
  let lastId = 0
  const nextId = () => {
    lastId += 1
    return `E${lastId}`
  }
  const listed = new Map<string, Article>(
    skus.map((codigo) => [codigo, { id: nextId(), codigo, precio: '10,00', stock: '5' }]),
  )
  const hidden = new Map<string, Article>()
  /** By own SKU: the SKU that an article has by mistake. */
  const mistaken = new Map<string, string>()
  const change = (): string => {
    const kind = random()
    if (kind < 0.12 && listed.size > skus.length / 2) {
      const codigo = pick([...listed.keys()])
      hidden.set(codigo, listed.get(codigo) as Article)
      listed.delete(codigo)
      return codigo
    }
    if (kind < 0.24 && hidden.size > 0) {
      const codigo = pick([...hidden.keys()])
      listed.set(codigo, hidden.get(codigo) as Article)
      hidden.delete(codigo)
      return codigo
    }
    const codigo = pick([...listed.keys()])
    const precio = `${1 + Math.floor(random() * 900)},${String(Math.floor(random() * 100)).padStart(2, '0')}`
    const { id } = listed.get(codigo) as Article
    listed.set(codigo, { id, codigo, precio, stock: String(1 + Math.floor(random() * 40)) })
    if (!onePrice.includes(codigo)) return codigo
    for (const list of [listed, hidden]) {
      for (const other of onePrice) {
        const article = list.get(other)
        if (article) list.set(other, { ...article, precio })
      }
    }
    return codigo
  }
  /** Two listed articles that may have the same price. */
  const pickTwo = (): [string, string] => {
    const first = pick([...listed.keys()])
    const isAlike = (sku: string) => onePrice.includes(sku) === onePrice.includes(first)
    const others = [...listed.keys()].filter((sku) => sku !== first && isAlike(sku))
    return others.length > 0 ? [first, pick(others)] : pickTwo()
  }
  const list = (): Article[] =>
    [...listed.values()].map((one) => ({ ...one, codigo: mistaken.get(one.codigo) ?? one.codigo }))
  return {
    random,
    pick,
    /** Makes this many changes and returns the ERP's new list. */
    change(count: number): Article[] {
      for (let made = 0; made < count; made += 1) change()
      return list()
    },
    /** An article is deleted in the ERP and created again, with the same SKU. */
    recreate() {
      const article = listed.get(pick([...listed.keys()]))
      if (article) article.id = nextId()
    },
    /** Two articles have each other's SKU. */
    swap() {
      const [one, other] = pickTwo()
      mistaken.set(one, other).set(other, one)
    },
    /** An article has the SKU of another one, which keeps it too. */
    takeOver() {
      const [one, other] = pickTwo()
      mistaken.set(one, other)
    },
    /** Each article has its own SKU again. Returns the SKUs that another article had. */
    correct(): string[] {
      const had = [...mistaken.values()]
      mistaken.clear()
      return had
    },
    /** The SKUs that two articles have. */
    shared: () => [...mistaken.values()].filter((sku) => !mistaken.has(sku)),
    list,
    isListed: (sku: string) => listed.has(sku),
    /** What the articles with this SKU give, with the price times `factor`. */
    expected(sku: string, factor = 1): OnSale[] {
      const articles = list().filter(({ codigo }) => codigo === sku)
      if (articles.length === 0) return ['not on sale']
      return articles.map(({ precio, stock }) => ({
        price: Number(precio.replace(',', '.')) * factor,
        stock: Number(stock),
      }))
    },
  }
}
