import { useNavigate, useSearch } from "@tanstack/react-router";

/** The part of a page that is shown, from its address. Filters of one part mean nothing in another. */
export function useAddressTab<Name extends string>(
  key: string,
  names: readonly Name[],
): [Name | undefined, (name: Name) => void] {
  const asked = (useSearch({ strict: false }) as Record<string, unknown>)[key];
  const navigate = useNavigate();
  const current = names.find((each) => each === asked) ?? names[0];
  return [current, (name) => void navigate({ to: ".", search: { [key]: name } } as never)];
}
