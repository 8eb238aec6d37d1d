/** The form of an identity provider, and the request that it makes. */
import type { Schema } from "@/api/client";

export interface Fields {
  type: "oidc" | "saml";
  name: string;
  discovery: string;
  clientId: string;
  clientSecret: string;
  scopes: string[];
  claim: string;
  claimValues: string[];
  metadataType: "url" | "file";
  metadataUrl: string;
  metadataFile: string;
  fileName: string;
  entityId: string;
  mappers: Schema<"MappersAnswer">;
}

const NO_MAPPERS = { email: "", groups: "", uid: "", gid: "", supplementaryGroups: "" };

export function fieldsOf(provider: Schema<"IdentityProvider"> | null): Fields {
  const { oidcData: oidc, samlData: saml } = provider ?? {};
  return {
    type: provider?.type === "saml" ? "saml" : "oidc",
    name: provider?.alias ?? "",
    discovery: oidc?.discoverDocumentUrl ?? "",
    clientId: oidc?.clientId ?? "",
    clientSecret: "",
    scopes: oidc?.scopes ?? [],
    claim: oidc?.mandatoryClaim?.claim ?? "",
    claimValues: oidc?.mandatoryClaim?.values ?? [],
    metadataType: saml?.metadataXmlType ?? "url",
    metadataUrl: saml?.metadataXmlUrl ?? "",
    metadataFile: "",
    fileName: saml?.fileName ?? "",
    entityId: saml?.entityId ?? "",
    mappers: provider?.mappers ?? NO_MAPPERS,
  };
}

/** What is empty is left out, so that the server keeps the secret, or takes its default. */
export function requestOf(fields: Fields, isNew: boolean): Schema<"IdentityProviderRequest"> {
  const given = <T extends object>(value: T) =>
    Object.fromEntries(Object.entries(value).filter(([, each]) => each !== "" && !isEmpty(each))) as Partial<T>;
  const mappers = given(fields.mappers);
  const common = {
    type: fields.type,
    ...(isNew ? { name: fields.name.trim() } : {}),
    ...(Object.keys(mappers).length > 0 ? { mappers } : {}),
  };
  if (fields.type === "oidc")
    return {
      ...common,
      oidcData: {
        clientId: fields.clientId.trim(),
        discoverDocumentUrl: fields.discovery.trim(),
        ...given({ clientSecret: fields.clientSecret, scopes: fields.scopes }),
        ...(fields.claim ? { mandatoryClaim: { claim: fields.claim, values: fields.claimValues } } : {}),
      },
    };
  const source =
    fields.metadataType === "url"
      ? { metadataXmlUrl: fields.metadataUrl.trim() }
      : { metadataXmlFile: fields.metadataFile, fileName: fields.fileName };
  return {
    ...common,
    samlData: { metadataXmlType: fields.metadataType, ...given({ ...source, entityId: fields.entityId.trim() }) },
  };
}

function isEmpty(value: unknown): boolean {
  return Array.isArray(value) && value.length === 0;
}
